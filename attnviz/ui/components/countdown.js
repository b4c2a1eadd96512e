// Counts down with the browser's clock from the remaining time in the payload.

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".cd"), call = begun(root), text = new TextDecoder().decode(data);
  if (root.text !== text) {
    root.text = text;
    root.end = performance.now() + 1000 * JSON.parse(text).seconds;
  }
  const show = () => {
    const left = Math.max(0, root.end - performance.now());
    root.firstChild.textContent = `${Math.floor(left / 60000)}:${String(Math.floor((left / 1000) % 60)).padStart(2, "0")}`;
    if (left) return;
    clearInterval(timer);
    setTriggerValue("up", true);
  };
  const timer = setInterval(show, 250);
  call.signal.addEventListener("abort", () => clearInterval(timer));
  show();
  return call.end;
}

// Counts down by the browser's own clock from what was left when the server said it.

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

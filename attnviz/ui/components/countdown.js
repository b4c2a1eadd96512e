// Counts down with the browser's clock from the remaining time in the payload. Where the answers would be lost with the page, because
// the browser stores nothing, it asks before it closes the page or loads it again.
import { begun } from "./call.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".cd"), call = begun(root), text = new TextDecoder().decode(data);
  if (root.text !== text) {
    root.text = text;
    const { seconds, label, asks } = JSON.parse(text);
    root.asks = asks;
    root.end = performance.now() + 1000 * seconds;
    root.querySelector("span").textContent = label;
  }
  const show = () => {
    const left = Math.max(0, root.end - performance.now());
    root.querySelector("b").textContent = `${Math.floor(left / 60000)}:${String(Math.floor((left / 1000) % 60)).padStart(2, "0")}`;
    if (left) return;
    clearInterval(timer);
    setTriggerValue("up", true);
  };
  const timer = setInterval(show, 250);
  call.signal.addEventListener("abort", () => clearInterval(timer));
  window.addEventListener("beforeunload", (event) => { if (root.asks) event.preventDefault(); }, { signal: call.signal });
  show();
  return call.end;
}

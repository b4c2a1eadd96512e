// Copies a link or another text; without clipboard permission, shows it for copying by hand.
import { isIdle } from "../../server/page.js";

export const LEFT_OUT = ["lesson", "lesson_step", "route", "route_item", "route_run", "present"]; // of a link to one drawing

// write: returns the text, or a promise of it; status: the element that says what happened.
export async function copyText(write, status, before = "") {
  const text = settled().then(write);
  try {
    // at once, with a promise: Safari allows a copy only during the click
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": text.then((plain) => new Blob([plain], { type: "text/plain" })) })]);
    status.textContent = "Copied";
  } catch {
    status.textContent = await text;
  }
  setTimeout(() => (status.textContent = before), 4000);
}

// The click also applies a text that was only typed; the address has it when the app has answered. A browser
// allows a copy for 5 s.
async function settled() {
  const end = performance.now() + 4000;
  for (let still = 0; still < 4 && performance.now() < end; still = !isIdle() ? 0 : still + 1)
    await new Promise((done) => setTimeout(done, 50));
}

// The URL that shows this drawing alone; that of the whole view if the drawing cannot be.
export function linkTo(key) {
  const url = new URL(window.location.href);
  if (!document.attnvizSave.drawings.some((each) => each[1] === key)) return url;
  for (const each of LEFT_OUT) url.searchParams.delete(each);
  url.searchParams.set("only", key);
  return url;
}

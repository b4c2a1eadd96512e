// Lets a text that was typed and not applied go along to the page whose link is tapped. Without it: the text is dropped
// (tests/browser/test_frame.py). Streamlit's field sends its value when it loses focus, but only once React has rendered it again, and
// a link is followed at once: with less than about 10 ms between press and click, as on a touchpad or a phone, the text would come after
// the page was left. Since Streamlit 1.31, the first with page links; observed in 1.67. Can be removed when a link sends it. No
// upstream issue.
import { PAGE_LINK } from "./page.js";

const SENT_AFTER = 60; // milliseconds from the loss of focus; measured: 12

let left = -Infinity;
document.addEventListener("focusout", ({ target }) => { if (target.matches?.("textarea, input")) left = performance.now(); });
document.addEventListener("click", (event) => {
  const link = event.target.closest?.(PAGE_LINK);
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || performance.now() - left > SENT_AFTER) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  left = -Infinity;
  setTimeout(() => link.click(), SENT_AFTER);
}, { capture: true });

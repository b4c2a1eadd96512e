// Opens the folded calculations while the page is printed. Without it: paper has “Show the calculation” in place of the equation
// (tests/browser/test_calculations.py). Observed in Streamlit 1.67, whose expander is a <details>. Can be removed when each browser's
// style sheet can open one (::details-content: Chromium 131, Firefox 143). No upstream issue.
import { calculations } from "./page.js";

window.addEventListener("beforeprint", () => {
  const folded = calculations().filter((each) => !each.open), turn = (open) => { for (const each of folded) each.open = open; };
  turn(true);
  window.addEventListener("afterprint", () => turn(false), { once: true });
});

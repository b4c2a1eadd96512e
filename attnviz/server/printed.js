// Opens the folded calculations while the page is printed. Without it: paper has “Show the calculation” in place of the equation
// (tests/browser/test_calculations.py). Observed in Streamlit 1.67, whose expander is a <details>. Can be removed when each browser's
// style sheet can open one (::details-content: Chromium 131, Firefox 143). No upstream issue.
import { unfolded } from "../ui/components/folded.js";
import { withComponents } from "./page.js";

const unfoldAll = () => { const undo = withComponents().map(unfolded); return () => undo.forEach((each) => each()); };
window.addEventListener("beforeprint", () => window.addEventListener("afterprint", unfoldAll(), { once: true }));

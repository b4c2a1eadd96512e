// Gives the app's colour scheme to the whole page, and so to what Streamlit draws outside of the app's element: popovers, dialogs, toasts.
// Without it: there light-dark() is light in the dark theme, so that a popover's main button writes white on its light ground
// (tests/browser/test_progress_kept.py). Streamlit sets color-scheme on its app alone; observed in 1.67. Can be removed when it is on
// the page. No upstream issue.
import { app } from "./page.js";

const follow = () => { document.body.style.colorScheme = getComputedStyle(app()).colorScheme; };
new MutationObserver(follow).observe(app(), { attributeFilter: ["class"] }); // of another theme, which the menu selects
follow();

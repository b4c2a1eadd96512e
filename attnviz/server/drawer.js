// Closes the sidebar of a narrow window, where it covers the page, once a page or an option of a list was chosen in it. Without
// it: the chosen page opens behind the sidebar (tests/browser/test_workarounds.py). Since Streamlit 1.31, the first with page
// links: it closes the sidebar only after a choice in its own navigation, which this app does not use; observed in 1.67. Can be
// removed when it does so after a page link too. No upstream issue.
import { PAGE_LINK, sidebar } from "./page.js";

const COLLAPSE = "[data-testid=stSidebarCollapseButton] button", CLOSED_AFTER = 150; // milliseconds: the list takes the option first
const close = (chosen) => {
  const covers = window.matchMedia("(max-width: 768px)").matches;
  if (covers && sidebar()?.contains(chosen)) setTimeout(() => sidebar().querySelector(COLLAPSE)?.click(), CLOSED_AFTER);
};
document.addEventListener("click", ({ target }) => close(target.closest?.(PAGE_LINK)));
// The list is not inside the sidebar and is gone before the click; its box keeps the focus.
document.addEventListener("pointerup", ({ target }) => close(target.closest?.("[role=option]") && document.activeElement), { capture: true });

// On a narrow window the sidebar covers the page. Streamlit closes it after a choice only in its own navigation, which this app
// does not use: so it closes here, once a page was chosen in it, or an option of one of its lists.
const COVERS = window.matchMedia("(max-width: 768px)"), COLLAPSE = "[data-testid=stSidebarCollapseButton] button";
const CLOSED_AFTER = 150; // milliseconds: the list takes the option first

function closingDrawer(signal) {
  const close = (chosen) => {
    const sidebar = document.querySelector("[data-testid=stSidebar]");
    if (COVERS.matches && sidebar?.contains(chosen)) setTimeout(() => sidebar.querySelector(COLLAPSE)?.click(), CLOSED_AFTER);
  };
  document.addEventListener("click", ({ target }) => close(target.closest?.("[data-testid=stPageLink-NavLink]")), { signal });
  // The list is not inside the sidebar and is gone before the click; its box keeps the focus.
  document.addEventListener("pointerup", ({ target }) => close(target.closest?.("[role=option]") && document.activeElement), { signal, capture: true });
}

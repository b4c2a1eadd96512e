// A callback that opens another page writes the address twice: Streamlit's `st.switch_page` first puts the query of the page to
// come into the address of the page that is left, then goes there. That first entry of the history was never on screen, and Back
// would stop at it; so the second write takes its place. Whoever follows a link presses something between the two.
const PRESSES = ["pointerdown", "keydown"];

function oneEntryPerPage() {
  if (document.attnvizOneEntry) return;
  document.attnvizOneEntry = true;
  const push = window.history.pushState.bind(window.history);
  let written = ""; // the query that was written last, nothing having been pressed since
  for (const press of PRESSES) document.addEventListener(press, () => (written = ""), { capture: true });
  window.history.pushState = (state, title, url) => {
    const to = new URL(url ?? "", window.location.href), samePage = to.pathname === window.location.pathname;
    if (!samePage && written && to.search === written) window.history.replaceState(state, title, url);
    else push(state, title, url);
    written = samePage ? to.search : "";
  };
}

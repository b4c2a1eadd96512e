// `st.switch_page` pushes two history entries: Streamlit first writes the new page's query to the URL of the old page, then goes
// to the new page. The first entry was never on screen, and Back would stop at it, so the second replaces it. With a link,
// there is a press between two entries.
const PRESSES = ["pointerdown", "keydown"];

function oneEntryPerPage() {
  if (document.attnvizOneEntry) return;
  document.attnvizOneEntry = true;
  const push = window.history.pushState.bind(window.history);
  let written = ""; // the query written last, cleared by a press
  for (const press of PRESSES) document.addEventListener(press, () => (written = ""), { capture: true });
  window.history.pushState = (state, title, url) => {
    const to = new URL(url ?? "", window.location.href), samePage = to.pathname === window.location.pathname;
    if (!samePage && written && to.search === written) window.history.replaceState(state, title, url);
    else push(state, title, url);
    written = samePage ? to.search : "";
  };
}

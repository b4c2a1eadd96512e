// Makes a change of page one history entry. Without it: Back stops at a page that was never on screen, after another was opened from
// a drawing or by a lesson's button: the old page, with the new step's text (tests/browser/test_workarounds.py). `st.switch_page`
// first adds the new page's query to the old page's URL, then goes to the new page; here the second entry replaces the first. A press
// between the two shows that a link was followed. Since Streamlit 1.52, the first with query_params of `st.switch_page`; observed in
// 1.67. Can be removed when that adds one entry. Upstream: #9049, closed, has a comment on it.
const push = window.history.pushState.bind(window.history);
let query = ""; // the query written last, cleared by a press
for (const press of ["pointerdown", "keydown"]) document.addEventListener(press, () => (query = ""), { capture: true });
window.history.pushState = (state, title, url) => {
  const to = new URL(url ?? "", window.location.href), samePage = to.pathname === window.location.pathname;
  if (!samePage && query && to.search === query) window.history.replaceState(state, title, url);
  else push(state, title, url);
  query = samePage ? to.search : "";
};

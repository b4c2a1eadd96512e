// Imports scripts by the addresses that Streamlit's own scripts import them by, so that a browser has them already when it
// is asked for them: after the page has been drawn, and while it has nothing else to do.
const AFTER = 700; // milliseconds
const idle = window.requestIdleCallback ?? ((then) => setTimeout(then));

export default function ({ data, parentElement }) {
  const call = begun(parentElement);
  const scripts = JSON.parse(new TextDecoder().decode(data));
  const fetched = (address) => import(new URL(address, document.baseURI).href).catch(() => {});
  const load = () => call.signal.aborted || scripts.forEach(fetched);
  setTimeout(() => idle(load), AFTER);
  return call.end;
}

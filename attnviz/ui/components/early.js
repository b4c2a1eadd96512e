// Imports scripts by the addresses that Streamlit's own scripts import them by, so that a browser has them already when it
// is asked for them: after the page has been drawn, and while it has nothing else to do.
const AFTER = 1500; // milliseconds
const idle = window.requestIdleCallback ?? ((then) => setTimeout(then));

export default function ({ data, parentElement }) {
  const call = begun(parentElement);
  const addresses = JSON.parse(new TextDecoder().decode(data)).scripts.map((address) => new URL(address, document.baseURI).href);
  const load = () => call.signal.aborted || addresses.forEach((address) => import(address).catch(() => {}));
  setTimeout(() => idle(load), AFTER);
  return call.end;
}

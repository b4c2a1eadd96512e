// Imports scripts by the addresses that Streamlit's own scripts import them by, so that a browser has them already when it
// is asked for them: after the page has been drawn, and while it has nothing else to do. A page that begins with charts has its
// first script at once, while the server still computes what it shows.
const AFTER = 1500; // milliseconds
const idle = window.requestIdleCallback ?? ((then) => setTimeout(then));

export default function ({ data, parentElement }) {
  const call = begun(parentElement);
  const { scripts, first } = JSON.parse(new TextDecoder().decode(data));
  const addresses = scripts.map((address) => new URL(address, document.baseURI).href);
  const fetched = (address) => import(address).catch(() => {});
  const load = () => call.signal.aborted || addresses.forEach(fetched);
  if (first && addresses.length) fetched(addresses[0]);
  setTimeout(() => idle(load), AFTER);
  return call.end;
}

// Preloads scripts from the URLs that Streamlit itself imports, so that the browser has them cached: after the page is drawn,
// and while the browser is idle.
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

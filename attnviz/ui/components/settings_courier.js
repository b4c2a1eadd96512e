// Stands on the page and is not seen: what the form on the left wishes goes to the server from here, so that only this part
// of the page runs; what is in force comes back to the form.
const WISH = "attnviz-wish", IN_FORCE = "attnviz-in-force", HERE = "attnviz-courier";

export default function ({ data, parentElement, setTriggerValue }) {
  const unheard = !parentElement.call || parentElement.call.signal.aborted, call = begun(parentElement);
  document.addEventListener(WISH, (event) => setTriggerValue("wish", event.detail), { signal: call.signal });
  document.dispatchEvent(new CustomEvent(IN_FORCE, { detail: JSON.parse(new TextDecoder().decode(data)) }));
  if (unheard) queueMicrotask(() => document.dispatchEvent(new CustomEvent(HERE))); // what was wished, before the page came say
  return call.end;
}

// Stands on the page and is not seen: what the form on the left wishes goes to the server from here, so that only this part
// of the page runs; what is in force comes back to the form.
const WISH = "attnviz-wish", IN_FORCE = "attnviz-in-force", HERE = "attnviz-courier";

export default function ({ data, parentElement, setTriggerValue }) {
  const courier = (parentElement.courier ??= create());
  courier.send = setTriggerValue;
  document.dispatchEvent(new CustomEvent(IN_FORCE, { detail: JSON.parse(new TextDecoder().decode(data)) }));
  return () => document.removeEventListener(WISH, courier.bring);
}

function create() {
  const courier = { bring: (event) => courier.send("wish", event.detail) };
  document.addEventListener(WISH, courier.bring);
  queueMicrotask(() => document.dispatchEvent(new CustomEvent(HERE))); // for what was wished before the page came
  return courier;
}

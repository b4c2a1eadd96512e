// After a question is answered its button is gone, and the focus would be on the document, before everything else; so it would where one
// comes back to an open question from another page. Not on a phone, where the focus on a field opens the keyboard.
import { begun, jsonOf } from "./call.js";
import { isIdle, isOutdated } from "../../server/page.js";

const HERE = ".st-key-focus-next"; // on the page that is open
const TURN = 60, WAIT = 1000, AT_MOST = 10_000; // milliseconds: between looks; for the best controls; in all

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { place, best, others } = jsonOf(data), began = performance.now();
  const end = () => { document.attnvizPlace = place; }; // of the document: a component can be mounted again for the same data
  const turn = () => {
    if (call.signal.aborted || document.attnvizPlace === place) return;
    const waited = performance.now() - began;
    if (waited > AT_MOST) return end();
    const offered = waited < WAIT ? best : [...best, ...others]; // a field's script can still be loading when its form's button is there
    const next = offered.map(found).find(Boolean);
    // The pressed button keeps the focus until Streamlit removes it, some time after the run.
    if (!next || !isIdle() || isOutdated(next) || document.activeElement !== document.body) return setTimeout(turn, TURN);
    next.focus({ preventScroll: true });
    end();
  };
  if (document.attnvizPlace === undefined || !matchMedia("(hover: hover)").matches) end();
  for (const each of ["pointerdown", "keydown"]) document.addEventListener(each, end, { signal: call.signal, passive: true });
  turn();
  return () => {
    call.end();
    setTimeout(() => { if (!document.querySelector(HERE)) document.attnvizPlace = ""; }); // the page was left: what comes is new
  };
}

// A component's elements are in its shadow root, which a selector enters by >>>.
const found = (selector) => selector.split(" >>> ").reduce((root, part) => (root?.shadowRoot ?? root)?.querySelector(part), document);

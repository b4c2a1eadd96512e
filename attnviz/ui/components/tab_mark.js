// Scrolls to the tabs of the page until nothing has moved for a while, or the user does something.
const TURN = 80, STILL = 1500, AT_MOST = 20000; // milliseconds: between looks; without movement, after which it ends; in all
const ABOVE = 12, HEADER = 66; // pixels: above the tabs; the same below a phone's header

export default function ({ parentElement }) {
  const call = begun(parentElement), began = performance.now(), watch = new AbortController(), until = AbortSignal.any([call.signal, watch.signal]);
  const top = matchMedia("(max-width: 768px)").matches ? HEADER : ABOVE;
  for (const each of ["wheel", "touchmove", "pointerdown", "keydown"]) document.addEventListener(each, () => watch.abort(), { signal: until, passive: true });
  let last = null, moved = began;
  const turn = () => {
    const tabs = document.querySelector(".st-key-control-group, .st-key-control-tab"), now = performance.now();
    if (until.aborted || now - moved > STILL || now - began > AT_MOST) return;
    const by = tabs ? Math.round(tabs.getBoundingClientRect().top - top) : null;
    if (by) document.querySelector("[data-testid=stMain]").scrollBy(0, by);
    if (by !== last || by === null) [last, moved] = [by, now];
    setTimeout(turn, TURN);
  };
  turn();
  return call.end;
}

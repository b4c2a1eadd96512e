// After a question is answered its button is gone, and the focus would be on the document, before everything else. Not on a phone,
// where the focus on a field opens the keyboard.
const TURN = 60, AT_MOST = 10_000; // milliseconds: between looks; in all

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { place, controls } = JSON.parse(new TextDecoder().decode(data)), began = performance.now();
  const turn = () => {
    if (call.signal.aborted || parentElement.place === place) return; // aborted: the next call, with the same data, goes on
    const next = controls.map((each) => document.querySelector(each)).find(Boolean), still = document.querySelector("[data-test-script-state=notRunning]");
    if ((!next || !still || next.closest("[data-stale=true]")) && performance.now() - began < AT_MOST) return setTimeout(turn, TURN);
    if (document.activeElement === document.body) next?.focus({ preventScroll: true });
    parentElement.place = place;
  };
  if (parentElement.place === undefined || !matchMedia("(hover: hover)").matches) parentElement.place = place;
  turn();
  return call.end;
}

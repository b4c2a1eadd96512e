// After a question is answered its button is gone, and the focus would be on the document, before everything else. Not on a phone,
// where the focus on a field opens the keyboard.
const TURN = 60, AT_MOST = 10_000; // milliseconds: between looks; in all

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { place, controls } = JSON.parse(new TextDecoder().decode(data)), began = performance.now();
  const turn = () => {
    if (call.signal.aborted || performance.now() - began > AT_MOST) return;
    const next = controls.map((each) => document.querySelector(each)).find(Boolean);
    const still = document.querySelector("[data-test-script-state=notRunning]");
    if (!next || !still || next.closest("[data-stale=true]")) return setTimeout(turn, TURN);
    if (document.activeElement === document.body) next.focus({ preventScroll: true });
  };
  if (parentElement.place !== undefined && parentElement.place !== place && matchMedia("(hover: hover)").matches) turn();
  parentElement.place = place;
  return call.end;
}

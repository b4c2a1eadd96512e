// Brings what the keyboard has moved the focus to above the bar at the bottom of the window, and the cell that arrow keys mark in a
// drawing: to a browser what is under the bar is in sight. A component's elements are in its shadow root, from which no focus event comes.
import { boxOf } from "./call.js";
import { bottom, main } from "../../server/page.js";
import { toSight } from "./sight.js";

const KEYS = ["Tab", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"];

export function focusInSight(signal) {
  let before = null; // what had the focus when a key was pressed, and where its marked cell was
  const look = () => {
    const [had, cellAt] = before, at = focused(), cell = cellOf(at);
    before = null;
    if (signal.aborted || !mayScroll(document.activeElement)) return;
    if (at !== had) toSight(boxOf(at), true);
    if (cell && (at !== had || placeOf(cell) !== cellAt)) toSight(boxOf(cell), true);
  };
  document.addEventListener("keydown", ({ key }) => {
    if (!KEYS.includes(key) || before) return;
    before = [focused(), placeOf(cellOf(focused()))];
    requestAnimationFrame(() => requestAnimationFrame(look)); // after the browser's own scrolling
  }, { signal, capture: true, passive: true });
}

function focused() {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at;
}

const cellOf = (element) => [...element.querySelectorAll(":scope > i, .mark")].find((each) => each.offsetWidth);
const placeOf = (cell) => cell && `${cell.offsetLeft} ${cell.offsetTop}`;
const mayScroll = (element) => main()?.contains(element) && element !== main() && !bottom()?.contains(element);

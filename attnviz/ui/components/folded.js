// Equations and letters, folded until one opens them; this browser remembers which are open (remembered.js). That of the drawing which a
// lesson points at is open, unless it was closed there. A picture that is saved has them (save.js), and so has a printed page
// (server/printed.js). Those of charts are Streamlit's expanders: chart_calculations.js folds them likewise.
import { el, keyOf } from "./call.js";
import { remember, wasLeftOpen } from "./remembered.js";

const LESSON = "attnviz-lesson"; // the event of another drawing that is pointed at
const roots = new Set(); // weak references to components: of a page that is gone, each would hold all elements
document.addEventListener(LESSON, () => {
  for (const weak of roots) weak.deref()?.isConnected ? foldAll(weak.deref()) : roots.delete(weak);
});

// Says at which drawing a lesson points, by the class of its element; "" for none.
export function pointAt(target) {
  if ((document.attnvizPointedAt ?? "") === target) return;
  document.attnvizPointedAt = target; // of the document: components may each have this module
  document.dispatchEvent(new CustomEvent(LESSON));
}

export const whenPointedElsewhere = (act) => document.addEventListener(LESSON, act);

// The fold of a drawing's calculation, by the drawing's key: where it is remembered, and whether it is to be open. nth: of those in one component.
export function foldOf(key, nth = 0) {
  const pointedAt = [`st-key-${key}`, `st-key-figure-${key}`].includes(document.attnvizPointedAt);
  const place = `${key}${nth ? ` ${nth}` : ""}${pointedAt ? " in a lesson" : ""}`;
  return { open: wasLeftOpen(place) ?? pointedAt, remember: (open) => remember(place, open) };
}

export function calculation(...contents) {
  const details = el("details", "calculation");
  details.append(el("summary", "", "Show the calculation"), ...contents);
  return details;
}

// Folds and opens those of a component.
export function foldAll(root) {
  roots.add((root.weak ??= new WeakRef(root)));
  for (const [nth, details] of [...root.querySelectorAll(".calculation")].entries()) {
    const fold = foldOf(keyOf(root), nth);
    details.open = fold.open;
    details.firstElementChild.onclick = () => fold.remember(!details.open);
  }
}

// Opens all, of a picture that is saved or of the page; returns a function that undoes it.
export function unfolded(root) {
  const folded = [...root.querySelectorAll(":is(.calculation, [class*=st-key-calculation-] details):not([open])")], turn = (open) => { for (const each of folded) each.open = open; };
  turn(true);
  return () => turn(false);
}

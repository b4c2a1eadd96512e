// Equations and letters, folded until one opens them: open in a lesson, and as one left them while the page stays loaded. A picture that
// is saved has them (save.js), and so has a printed page (server/printed.js).
import { el } from "./call.js";

const leftOpen = new Map(), roots = new Set(); // of a drawing, in a lesson or not: whether its calculation is open; components
document.addEventListener("attnviz-lesson", () => {
  for (const root of roots) root.isConnected ? foldAll(root) : roots.delete(root);
});

export function calculation(...contents) {
  const details = el("details", "calculation");
  details.append(el("summary", "", "Show the calculation"), ...contents);
  return details;
}

// Opens those of a component that are to be open; keyOf(root) is its key on the page.
export function foldAll(root) {
  const inLesson = document.querySelector(".st-key-lesson-bar") !== null;
  roots.add(root);
  for (const [i, details] of [...root.querySelectorAll(".calculation")].entries()) {
    const place = `${keyOf(root)}, ${i}, ${inLesson}`;
    details.open = leftOpen.get(place) ?? inLesson;
    details.firstElementChild.onclick = () => leftOpen.set(place, !details.open);
  }
}

export const keyOf = (root) => root.getRootNode().host.closest("[class*=st-key-]").className.match(/st-key-([\w-]+)/)[1];

// Opens all, of a picture that is saved or of the page; returns a function that undoes it.
export function unfolded(root) {
  const folded = [...root.querySelectorAll(":is(.calculation, [class*=st-key-calculation-] details):not([open])")], turn = (open) => { for (const each of folded) each.open = open; };
  turn(true);
  return () => turn(false);
}

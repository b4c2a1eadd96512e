// Buttons that save a component's picture, and one that opens it full-screen, in one row with its calculation. about() returns the argument for `save.js`; it is called
// on a press.
import { boxOf, el, keyOf, zoomOf } from "./call.js";
import { fillBar } from "./save_choices.js";

const LARGEST_ON_SCREEN = 3, FILLING = 1.25, NARROWER = [5, 10, 15, 20, 25, ""], DRAWN = 60; // maximal zoom; that of a drawing which fills the screen by itself; padding tried on each side, % of the width; milliseconds until redrawn

export function saveButtons(root, about) {
  root.about = about;
  if (root.querySelector(":scope > .actions")) return;
  const save = (kind) => document.attnvizSave.component(kind, root, root.about), folded = root.querySelectorAll(".calculation");
  const actions = root.appendChild(el("div", "actions")), bar = actions.appendChild(el("div", "save"));
  if (folded.length === 1) actions.append(folded[0]); // one of several is that of its panel
  fillBar(bar, keyOf(root), save, (kind) => `Save as ${kind}`, (add) => {
    if (document.fullscreenEnabled) fullScreen(root, (label, then) => add(label, label, then));
  });
}

// Zooms until the component fills the screen. A grid's height grows with its width, so it is narrowed until it fits; if it
// never fits, it scrolls.
function fullScreen(root, add) {
  let before = boxOf(root), open; // open: ends with full screen
  const isOpen = () => root.matches(":fullscreen"), button = add("Full screen", () => {
    if (isOpen()) return void document.exitFullscreen();
    before = boxOf(root);
    root.requestFullscreen().catch(() => {}); // an embedding iframe may not allow it
  });
  const zoomTo = (zoom) => {
    root.style.zoom = zoom;
    root.style.setProperty("--slide-height", zoom && `${innerHeight / zoomOf(root) - 80}px`); // minus the buttons
  };
  const fits = () => root.scrollHeight <= root.clientHeight + 1 && root.scrollWidth <= root.clientWidth + 1;
  const fit = () => {
    if (root.fill) return fill();
    root.style.paddingInline = "";
    const high = innerHeight / before.height, least = Math.max(1, Math.min(innerWidth / before.width, high));
    let zoom = Math.min(Math.max(high, least), LARGEST_ON_SCREEN);
    for (zoomTo(zoom); zoom > least && !fits(); zoomTo(zoom)) zoom = Math.max(zoom * 0.9, least);
    if (!fits()) zoomTo(Math.max(1, 0.75 * least)); // larger maps are preferred to larger type
    narrow(NARROWER);
  };
  const fill = () => {
    zoomTo(innerWidth > 1000 ? FILLING * Math.max(1, innerHeight / 900) : 1);
    root.fill();
    setTimeout(root.fill, DRAWN); // names wrap otherwise in other sizes
  };
  const narrow = ([share, ...smaller]) => setTimeout(() => { // after components have redrawn themselves
    if (!isOpen() || fits()) return;
    root.style.paddingInline = share && `${share}%`;
    if (share) narrow(smaller);
  }, DRAWN);
  root.addEventListener("fullscreenchange", (e) => {
    if (e.target !== root) return;
    button.textContent = button.ariaLabel = isOpen() ? "Leave full screen" : "Full screen";
    open?.abort();
    if (!isOpen()) return void zoomTo(root.style.paddingInline = "");
    open = new AbortController();
    window.addEventListener("resize", fit, { signal: open.signal }); // a window may get the screen's size after the event
    fit();
  });
}


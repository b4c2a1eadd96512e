// The whole run of `source_walk`: a column per line, a row per call depth.
import { el, inOwnPixels, roundStep, zoomOf } from "./call.js";
import { go, pause } from "./source_walk.js";

export function way(view) {
  const { d } = view, n = d.stops.length, depth = (i) => (d.calls[i].parent < 0 ? 0 : depth(d.calls[i].parent) + 1);
  const span = (i) => {
    const inside = d.stops.flatMap((stop, k) => (within(d, stop.call, i) ? [k] : []));
    return inside.length ? [inside[0], inside.at(-1) + 1] : null;
  };
  const boxes = d.calls.flatMap((call, i) => {
    const at = span(i);
    if (!at) return [];
    const box = boxNamed(call.name);
    Object.assign(box, { type: "button", tabIndex: -1, title: `${call.path.join(" › ")}: ${at[1] - at[0]} lines`, onclick: () => { pause(view); go(view, call.stops[0] ?? at[0]); } });
    box.dataset.call = i;
    box.style.gridArea = `${depth(i) + 1} / ${at[0] + 1} / auto / ${at[1] + 1}`;
    return [box];
  });
  d.stops.forEach((stop, n) => {
    if (!stop.skipped) return; // a block of another layer
    const box = boxNamed(stop.skipped, " skipped");
    Object.assign(box, { type: "button", tabIndex: -1, title: `${stop.skipped}: not recorded`, onclick: () => { pause(view); go(view, n); } });
    box.style.gridArea = `${depth(stop.call) + 2} / ${n + 1}`;
    boxes.push(box);
  });
  const deepest = 1 + Math.max(...d.calls.map((_, i) => depth(i)));
  const ticks = d.stops.map((stop, i) => {
    const tick = el("button", "tick");
    Object.assign(tick, { type: "button", tabIndex: -1, title: `${d.calls[stop.call].name}, line ${stop.lines[0]}: ${stop.shown.at(-1).name}`, onclick: () => { pause(view); go(view, i); } });
    tick.dataset.stop = i;
    tick.style.gridArea = `${deepest + 1} / ${i + 1}`;
    return tick;
  });
  view.root.style.setProperty("--calls", deepest + 1); // rows of the whole run, the lines' included
  const least = d.stops.map((stop) => (stop.skipped ? `min(14px, ${130 / n}%)` : "0")); // wide enough for a block's number
  view.way.style.gridTemplateColumns = least.map((width) => `minmax(${width}, 1fr)`).join(" ");
  view.way.replaceChildren(...boxes, ...ticks);
  fit(view);
}

// A call's box. Its whole name is read aloud and in its title, since the written one may be shorter.
function boxNamed(name, kind = "") {
  const box = el("button", `call${kind}`, name);
  box.setAttribute("aria-label", name);
  return box;
}

// Writes each name as far as it fits: the whole, else the number at its end ("blocks.2": 2), else nothing. A name cut
// off ("b…") would be the same for all blocks.
export function fit({ way }) {
  const boxes = [...way.querySelectorAll(".call:not(.skipped)")], name = (box) => box.getAttribute("aria-label");
  const shorten = (write) => {
    const cut = boxes.filter((box) => box.scrollWidth > box.clientWidth + 1); // all are measured before one is written; WebKit rounds one up, one down
    cut.forEach((box) => (box.textContent = write(box)));
  };
  boxes.forEach((box) => (box.textContent = name(box)));
  shorten(numberOf);
  shorten(() => "");
  number([...way.querySelectorAll(".skipped")]);
}

const numberOf = (box) => box.getAttribute("aria-label").match(/\d*$/)[0];

// Writes the numbers of the other blocks, which are as wide as a line: where they do not fit, every second, fifth or tenth.
function number(skipped) {
  if (!skipped.length) return;
  skipped.forEach((box) => (box.textContent = numberOf(box)));
  const { width } = inOwnPixels(skipped[0].getBoundingClientRect(), zoomOf(skipped[0])), room = width + 1, needed = Math.max(...skipped.map((box) => box.scrollWidth)) - 1;
  const every = roundStep(Math.max(1, needed / room));
  skipped.forEach((box) => (box.textContent = numberOf(box) % every ? "" : numberOf(box)));
}

const within = (d, call, outer) => call === outer || (d.calls[call].parent >= 0 && within(d, d.calls[call].parent, outer));

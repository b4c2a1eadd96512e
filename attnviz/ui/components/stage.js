// Presentation mode: zooms the drawing until it fills the window above or beside the bar, at least by TYPE; if it is then higher than
// the window, it scrolls. Only a chart is enlarged less, so that its axes are seen together with its marks. Draws a ring around the
// pointer; B blanks the screen. Page Up and Page Down, as sent by a clicker, step.
import { barBox, begun, boxOf, isBrowsers, jsonOf } from "./call.js";
import { bottom, bottomBlock, CHART, ELEMENT, isPending } from "../../server/page.js";

const TYPE = 1.4, TEXT = 1.75, SCREEN = [1280, 720]; // minimal zoom of a drawing, and maximal one of a text beside it, on a screen of that size
const LARGEST = 4, SMALLER = 0.9, SMALLEST = 0.85; // maximal zoom of a drawing; factor per try and minimum of a text's
const SHARES = [1, 0.85, 0.75, 0.65, 0.55, 0.45], CHART_SHARES = [1, 0.75, 0.55]; // widths tried, as shares of the widest; a chart's height is its own
const NARROW = 640; // pixels of a phone, where a drawing is already as wide as the window
const WIDEST = 1.6, RING = 56, TRIES = 6; // maximal useful width / height; pixels; attempts
const SETTLED = 80, FRAMES = 3; // milliseconds until a chart is laid out; frames until a drawing of ours is: it is painted in the next one

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { signal } = call, { target } = jsonOf(data);
  const sheet = document.createElement("style"), ring = layer("ring"), black = layer("black");
  black.setAttribute("role", "img");
  black.setAttribute("aria-label", "The screen is black. Press B to show it again.");
  black.hidden = true;
  document.head.append(sheet);
  const fit = fitting(sheet, target, signal), text = document.createElement("style"), fitAll = () => { fitText(text); fit(); };
  document.head.append(text);
  window.addEventListener("resize", fitAll, { signal });
  const bar = new ResizeObserver(fitAll); // it grows with an answer
  for (const each of [bottom(), bottomBlock()]) bar.observe(each);
  signal.addEventListener("abort", () => bar.disconnect());
  document.addEventListener("pointermove", (e) => ringAt(ring, e), { signal });
  document.addEventListener("keydown", (e) => key(e, black), { signal });
  fitAll();
  signal.addEventListener("abort", () => { for (const each of [sheet, text, ring, black]) each.remove(); });
  return call.end;
}

function layer(name) {
  const box = document.createElement("div"), ring = name === "ring";
  box.className = `attnviz-${name}`;
  Object.assign(box.style, ring
    ? { position: "fixed", zIndex: 1e6, width: `${RING}px`, height: `${RING}px`, margin: `-${RING / 2}px`, borderRadius: "50%", border: "4px solid var(--lesson)", pointerEvents: "none", left: "-999px" }
    : { position: "fixed", zIndex: 1e6 + 1, inset: 0, background: "#000" });
  document.body.append(box);
  return box;
}

function ringAt(ring, e) {
  if (e.pointerType === "touch" && !e.isPrimary) return;
  Object.assign(ring.style, { left: `${e.clientX}px`, top: `${e.clientY}px` });
}

const written = (e) => e.composedPath()[0]?.matches?.("input, textarea, select, [contenteditable=true]");

function key(e, black) {
  if (written(e) || isBrowsers(e)) return;
  if (e.key === "b" || e.key === "B") black.hidden = !black.hidden;
  const lesson = document.querySelector(".st-key-lesson-tools"), names = lesson ? ["lesson-back", "lesson-next"] : ["present-previous", "present-following"];
  const name = names[["PageUp", "PageDown"].indexOf(e.key)];
  if (name) document.querySelector(`.st-key-${name} button`)?.click();
  if (name) e.preventDefault();
}

// A small window is a small screen, or one of few pixels on which all is larger.
const onScreen = (most) => Math.max(1, most * Math.min(1, window.innerWidth / SCREEN[0], window.innerHeight / SCREEN[1]));

// A lesson's text beside the drawing is as large as fits; the smallest scrolls.
function fitText(sheet) {
  const bar = bottom();
  if (!(barBox().left > 0)) return;
  for (let zoom = onScreen(TEXT); zoom >= SMALLEST; zoom *= SMALLER) {
    const rule = `:root { --text-zoom: ${zoom}; }`;
    if (sheet.textContent !== rule) sheet.textContent = rule;
    if (bar.scrollHeight <= bar.clientHeight + 1) return;
  }
}

// What the drawing needs beside its labels is known to itself.
const narrowestOf = (element) => Math.max(0, ...[...element.querySelectorAll("[data-narrowest]")].map((each) => Number(each.dataset.narrowest)));

// A grid's height grows with its width, a chart's does not: so several widths are tried, and the one that fills most of the screen
// is used; a drawing that is new cannot be seen until then. CSS properties tell it that it is presented (--slide: 1), its maximal height, and to
// hide what it can omit.
function fitting(sheet, target, signal) {
  const narrow = () => window.innerWidth <= NARROW, type = () => (narrow() ? 1 : onScreen(TYPE));
  let turn = 0, seen = "", trying = false, shown = document.attnvizStaged === target;
  const roomFor = () => {
    const bar = barBox(), beside = bar.left > 0; // a lesson's text in a wide window
    return [(beside ? bar.left : window.innerWidth) - 32, (bar.height && !beside ? bar.top : window.innerHeight) - 24];
  };
  const wait = (ms) => new Promise((then) => setTimeout(then, ms));
  const frames = (n) => new Promise((then) => (n ? requestAnimationFrame(() => frames(n - 1).then(then)) : then()));
  const laidOut = () => Promise.race([wait(SETTLED), ...(charts().length ? [] : [frames(FRAMES)])]);
  const charts = () => [...document.querySelectorAll(`.${target} ${CHART}`)];
  const least = () => (charts().length ? 1 : type());
  // Plotly sizes a chart by its box in the window, and maps pointer positions correctly under a transform, but not under zoom. A
  // transform leaves the box as it was, so a margin takes the place of what is drawn below it.
  const lay = (zoom, width) => {
    const below = (zoom - 1) * Math.max(0, ...charts().map((each) => each.offsetHeight));
    sheet.textContent = `.${target} { --slide: 1; --slide-height: ${roomFor()[1] / type()}px; --slide-rest: none; --slide-tools: sticky; zoom: ${zoom}; width: ${width}px !important; max-width: none !important; margin-inline: auto; align-self: center; opacity: ${trying ? 0 : 1}; }
      .${target} ${ELEMENT} { overflow: visible; }
      .${target} ${ELEMENT}:has(${CHART}) { zoom: ${1 / zoom}; width: ${100 / zoom}% !important; margin-bottom: ${below}px; }
      .${target} .js-plotly-plot { transform: scale(${zoom}); transform-origin: 0 0; overflow: visible !important; }`;
  };
  const tried = async (element, [wide, high], width) => {
    lay(1, width);
    await laidOut();
    const { height } = boxOf(element), zoom = Math.max(least(), Math.min(wide / width, high / height, LARGEST));
    const over = (zoom * height) / high, filled = (zoom * zoom * Math.min(width, WIDEST * height) * height) / (wide * high);
    return { width, zoom, worth: over > 1.001 ? -over : filled };
  };
  const fill = async (element, stale) => {
    const room = roomFor(), all = [], widest = room[0] / type(), narrowest = Math.min(widest, narrowestOf(element));
    trying = !shown;
    for (const share of narrow() ? [1] : charts().length ? CHART_SHARES : SHARES) {
      all.push(await tried(element, room, Math.max(narrowest, widest * share)));
      if (stale()) return; // the window was resized: the measurements so far are invalid
    }
    let best = all.reduce((a, b) => (b.worth > a.worth ? b : a));
    const wider = await tried(element, room, room[0] / best.zoom); // for a height that does not depend on the width
    if (stale()) return;
    if (wider.worth > best.worth) best = wider;
    lay(best.zoom, best.width);
    await laidOut();
    const over = boxOf(element).height / room[1]; // zoomed text can wrap into more lines
    if (stale()) return;
    trying = false;
    const lowest = over < 1 / SMALLER ? Math.max(1, SMALLER * least()) : least(); // a little smaller, if it then fits
    lay(over > 1.001 && best.zoom > lowest ? Math.max(lowest, best.zoom / over) : best.zoom, best.width);
  };
  return async function start() {
    const element = target && document.querySelector(`.${target}`), now = String(roomFor());
    if (signal.aborted || !target || seen === now) return; // plotly's own resize events do not change the room
    const drawn = element && boxOf(element).height >= 20 && !isPending(element); // of a chart
    if (!drawn) return void setTimeout(start, SETTLED);
    const run = ++turn, stale = () => run !== turn || signal.aborted;
    seen = now;
    document.attnvizStaged = target;
    for (let i = 0; i < TRIES && !stale(); i++) {
      await fill(element, stale);
      const { height } = boxOf(element), { length } = charts();
      await wait(6 * SETTLED); // elements drawn late change the height
      if (Math.abs(boxOf(element).height - height) < 8 && charts().length === length) break;
    }
    shown = true;
  };
}

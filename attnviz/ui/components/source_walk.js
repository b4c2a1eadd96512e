// Walk through the source that ran, line by line. Stepping, playing, jumping and hover are handled here; another entry is
// requested from the server, which has the whole tensors.
import { begun, clamp, el, isBrowsers, partsOf, pointOn, TOUCH } from "./call.js";
import { fingers, hovering, isDark, parts, powerOfTen, sharply, short, ways } from "./packed_weights.js";
import { saveButtons } from "./save_buttons.js";
import { nameOf, paint, shownOf } from "./walk_pictures.js";
import { fit, way } from "./walk_overview.js";

const SEND_AFTER = 300; // milliseconds of debounce for the step sent to the server
const PLAY = 1100; // milliseconds per line while playing

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".sw");
  const view = (root.view ??= create(root)), call = begun(root);
  view.send = setTriggerValue;
  if (view.bytes !== data) update(view, data);
  view.dark = isDark(root);
  show(view);
  document.addEventListener("keydown", (e) => keyOfPage(view, e), { signal: call.signal });
  call.signal.addEventListener("abort", () => pause(view));
  return call.end;
}

function create(root) {
  const names = ["way", "path", "source", "does", "chips", "title", "read", "main", "from", "sum", "bars", "bars-say"];
  const view = { root, ...partsOf(root, names), stop: 0, chip: null };
  view.canvas = view.main.querySelector("canvas");
  view.jump = root.querySelector("select");
  view.jump.onchange = () => go(view, +view.jump.value);
  root.querySelectorAll("[data-go]").forEach((button) => (button.onclick = () => act(view, button.dataset.go)));
  root.onkeydown = (e) => key(view, e);
  view.canvas.onpointermove = hovering((e) => point(view, mainCell(view, e)));
  view.canvas.onpointerleave = hovering(() => point(view, null));
  fingers(view.canvas, (e) => point(view, mainCell(view, e)));
  view.canvas.onclick = (e) => choose(view, mainCell(view, e));
  new ResizeObserver(() => requestAnimationFrame(() => view.d && paint(view))).observe(view.main);
  new ResizeObserver(() => requestAnimationFrame(() => fit(view))).observe(view.way);
  new ResizeObserver(() => toLine(view)).observe(view.source); // it is lower while presenting
  return view;
}

function update(view, bytes) {
  const before = view.d && { stop: view.stop, name: shownOf(view).name };
  const [d, numbers] = parts(bytes);
  view.d = d;
  d.numbers = new Float32Array(numbers);
  view.bytes = bytes;
  d.calls.forEach((each, i) => Object.assign(each, { stops: d.stops.flatMap((stop, n) => (stop.call === i ? [n] : [])) }));
  d.stops.forEach((stop, n) => (stop.into = d.calls.flatMap((each) => (each.from === n && each.stops.length ? [each] : []))));
  // a step not yet sent must not be overwritten by an earlier answer
  if (!view.sending) view.stop = clamp(d.at, 0, d.stops.length - 1);
  // another entry of a tensor was chosen: it stays the one that is shown
  if (before?.stop !== view.stop || d.stops[view.stop].shown[view.chip]?.name !== before.name) view.chip = null;
  way(view);
  jumps(view);
}

// ---- navigation

function key(view, e) {
  if (e.target.localName === "select" || isBrowsers(e)) return;
  const action = { ArrowLeft: "back", ArrowRight: "next", ArrowUp: "out", ArrowDown: "into", o: "over", O: "before", "/": "jump" }[e.key];
  if (e.shiftKey && ways[e.key]) moved(view, ways[e.key]);
  else if (e.key === " " && e.target.localName !== "button") act(view, "play");
  else if (action) act(view, action);
  else return;
  e.preventDefault();
}

// Left and right step without a click into the walk, as long as nothing that has a use for them has the focus. A presenter's
// arrow keys go to the next drawing.
function keyOfPage(view, e) {
  const at = document.activeElement, free = at === document.body || at?.closest(".st-key-lesson-bar");
  if (free && ["ArrowLeft", "ArrowRight"].includes(e.key) && !e.shiftKey && !document.querySelector(".st-key-present-leave")) key(view, e);
}

function act(view, action) {
  const { d } = view, call = d.calls[d.stops[view.stop].call];
  if (action === "play") return view.playing ? pause(view) : play(view);
  pause(view);
  if (action === "jump") return view.jump.focus();
  if (action === "copy") return copy(view, call);
  const to = target(view, action);
  if (to !== null) go(view, to);
}

// The stop that an action leads to; null if there is none. Lines are walked in the order they ran, into each call; "over"
// and "before" stay in the function as long as it has a line.
function target(view, action) {
  const { d } = view, stop = d.stops[view.stop], call = d.calls[stop.call], at = call.stops.indexOf(view.stop);
  const to = {
    next: () => view.stop + 1,
    back: () => view.stop - 1,
    over: () => call.stops[at + 1] ?? after(view, call),
    before: () => call.stops[at - 1] ?? caller(view, call),
    out: () => caller(view, call),
    into: () => stop.into[0]?.stops[0],
  }[action]();
  return to >= 0 && to < d.stops.length ? to : null;
}

// The stop of the line that called; if that line made no tensor, the one before it in its function. -1 if there is none.
function caller(view, call) {
  const outer = call.from < 0 && view.d.calls[call.parent];
  return outer ? outer.stops.findLast((n) => n < view.stop) ?? caller(view, outer) : call.from;
}

// The stop after the last line of a call: the next call of the same line, or the line after it; -1 at the end of the run.
function after(view, call) {
  const { d } = view;
  if (call.parent < 0) return -1;
  if (call.from < 0) return d.calls[call.parent].stops.find((n) => n > view.stop) ?? after(view, d.calls[call.parent]);
  const from = d.stops[call.from], sibling = from.into[from.into.indexOf(call) + 1];
  if (sibling) return sibling.stops[0];
  const outer = d.calls[from.call], at = outer.stops.indexOf(call.from);
  return outer.stops[at + 1] ?? after(view, outer);
}

export function go(view, to) {
  view.stop = clamp(to, 0, view.d.stops.length - 1);
  view.chip = null;
  show(view);
  clearTimeout(view.sending);
  view.sending = setTimeout(() => {
    view.sending = 0;
    view.send("step", view.stop);
  }, SEND_AFTER);
}

// Plays every line in execution order, into each call.
function play(view) {
  const last = view.d.stops.length - 1;
  if (view.stop === last) view.stop = 0;
  view.playing = setInterval(() => (view.stop < last && view.root.isConnected ? go(view, view.stop + 1) : pause(view)), PLAY);
  tools(view);
}

export function pause(view) {
  clearInterval(view.playing);
  view.playing = 0;
  if (view.d) tools(view);
}

async function copy(view, call) {
  const copied = await navigator.clipboard?.writeText(call.source).then(() => true, () => false);
  view.read.textContent = copied ? `Copied ${call.function} of ${call.file}.` : "The browser did not allow copying. The code can be selected.";
}

function jumps(view) {
  const { d } = view;
  view.jump.replaceChildren(...d.calls.flatMap((call) => {
    if (!call.stops.length) return [];
    return [Object.assign(el("option", "", call.path.join(" › ")), { value: call.stops[0] })];
  }));
}

// ---- one line

function show(view) {
  const { d } = view, stop = d.stops[view.stop], call = d.calls[stop.call];
  view.chip ??= stop.opens;
  view.path.replaceChildren(...call.path.flatMap((name, i) => [i ? " › " : "", el(i === call.path.length - 1 ? "b" : "span", "", name)]),
    el("small", "", `  ${call.function} · ${call.file}`));
  source(view, call, stop);
  const purpose = stop.purpose ? [el("b", "", "What this line is for. "), `${stop.purpose} `] : [];
  const operations = el("span", stop.purpose ? "operations" : "");
  operations.append(el("b", "", "What this line does. "), stop.does);
  view.does.replaceChildren(...purpose, operations);
  [...view.way.querySelectorAll("[aria-current]")].forEach((each) => each.removeAttribute("aria-current"));
  view.way.querySelector(`[data-stop="${view.stop}"]`)?.setAttribute("aria-current", "step");
  for (let i = stop.call; i >= 0; i = d.calls[i].parent) view.way.querySelector(`[data-call="${i}"]`)?.setAttribute("aria-current", "true");
  view.jump.value = call.stops[0];
  chips(view, stop);
  tools(view);
  picture(view);
}

function source(view, call, stop) {
  const { d } = view, made = new Map(call.stops.map((n) => [d.stops[n].lines[0], n]));
  if (view.shownCall !== stop.call || view.shownBytes !== view.bytes) {
    Object.assign(view, { shownCall: stop.call, shownBytes: view.bytes });
    const [opens, ends] = call.docstring ?? [0, 0];
    const rows = call.source.replace(/\n$/, "").split("\n"), indent = Math.min(...rows.filter((r) => r.trim()).map((r) => r.match(/^ */)[0].length));
    view.source.replaceChildren(...rows.map((text, i) => {
      const number = call.first + i, row = el(made.has(number) ? "button" : "div", "row"), at = made.get(number);
      const code = el("code", "", text.slice(indent).trimStart() || " "), inner = text.slice(indent).match(/^ */)[0].length;
      code.style.paddingLeft = `${inner + 4}ch`; // hanging indent of wrapped lines
      row.append(el("small", "", number), el("i", made.has(number) ? "dot" : ""), code);
      row.number = number;
      row.classList.toggle("docstring", opens < number && number <= ends);
      if (number === opens && ends > opens) row.append(unfold(view, ends - opens));
      if (made.has(number)) {
        row.type = "button";
        row.append(el("small", "shape", d.stops[at].shown.at(-1).shape.split("= ").at(-1)));
        row.onclick = () => { pause(view); go(view, made.get(number)); };
      }
      return row;
    }));
  }
  for (const row of view.source.children) {
    const here = row.number >= stop.lines[0] && row.number <= stop.lines[1];
    row.classList.toggle("here", here);
    row.classList.toggle("later", row.number > stop.lines[1]);
    if (here) row.setAttribute("aria-current", "step"); else row.removeAttribute("aria-current");
  }
  toLine(view);
}

// A docstring is folded to its first line, so that the code comes into sight; one button shows all of it.
function unfold({ source }, lines) {
  const button = el("button", "fold", "");
  const say = (whole) => {
    source.classList.toggle("whole", whole);
    button.textContent = whole ? "Fold" : `… ${lines} more lines`;
    button.setAttribute("aria-expanded", whole);
  };
  button.type = "button";
  button.onclick = () => say(!source.classList.contains("whole"));
  say(source.classList.contains("whole"));
  return button;
}

function toLine({ source }) {
  const here = source.querySelector(".here");
  if (here) source.scrollTop = Math.max(0, here.offsetTop - source.clientHeight / 2);
}

function chips(view, stop) {
  view.chips.replaceChildren(...(stop.shown.length < 2 ? [] : stop.shown.map((shown, i) => {
    const chip = el("button", "", shown.name);
    chip.type = "button";
    chip.setAttribute("aria-pressed", i === view.chip);
    chip.onclick = () => { view.chip = i; chips(view, stop); picture(view); };
    return chip;
  })));
}

function tools(view) {
  view.root.querySelector("[data-go=play]").textContent = view.playing ? "❚❚ pause" : "▶ play";
  for (const name of ["back", "next", "out", "into", "before", "over"])
    view.root.querySelector(`[data-go=${name}]`).disabled = target(view, name) === null;
}

function picture(view) {
  const shown = shownOf(view), { d } = view;
  view.title.replaceChildren(el("b", "", shown.slice === shown.name ? shown.name : shown.slice), ` ${shown.shape}`);
  const p = d.pictures[shown.picture];
  view.title.style.setProperty("--hue", p.hue < 0 ? "transparent" : d.marks[p.hue]);
  view.canvas.setAttribute("aria-label", shown.alt);
  view.sum.replaceChildren(el("b", "", shown.place), shown.place && shown.sum ? ": " : "", shown.sum);
  view["bars-say"].textContent = shown.barsSay;
  view.bars.style.display = shown.bars.length ? "" : "none";
  view.bars.setAttribute("aria-label", shown.barsSay);
  view.from.replaceChildren(...shown.sources.map((from, i) => {
    const figure = el("figure", ""), canvas = el("canvas", ""), note = el("figcaption", "");
    note.append(i ? "and " : "made from ", el("b", "", from.name), ` ${from.shape}`);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${from.name} ${from.shape}`);
    canvas.onpointermove = (e) => pointSource(view, from, canvas, e);
    canvas.onpointerleave = () => point(view, null);
    figure.append(note, canvas);
    return figure;
  }));
  point(view, null);
  paint(view);
  saveButtons(view.root, () => ({ title: `${shown.slice} ${shown.shape}`, legend: p.hue < 0 ? [] : [[d.marks[p.hue], `KV ${p.hue}`]], unsaved: ".tools, .way, .read", stage: (ratio) => sharply(view, () => paint(view), ratio) }));
}

// ---- hover

const mainCell = (view, e) => cellAt(view.canvas, view.d.pictures[shownOf(view).picture], e);

function cellAt(canvas, p, e) {
  const { label, top, wide, high } = canvas.geometry, [x, y] = pointOn(canvas, e);
  const column = Math.floor((x - label) / wide), row = Math.floor((y - top) / high);
  return row >= 0 && column >= 0 && row < p.size[0] && column < p.size[1] ? [row, column] : null;
}

function place(view, p, [row, column]) {
  const position = ["row", "column"].map((name, axis) => {
    const i = [row, column][axis] + p.first[axis];
    return `${name} ${i}${p.tokens[axis] || (axis && p.names.length) ? ` “${short(nameOf(view, p, axis, i))}”` : ""}`;
  });
  return position.join(", ");
}

const written = (x, truth) => {
  if (truth) return x ? "true" : "false";
  if (!Number.isFinite(x)) return x < 0 ? "−∞ (masked)" : String(x);
  const size = Math.abs(x);
  if (!Number.isInteger(x) && size < 0.0001) return powerOfTen(x, 3);
  return (Number.isInteger(x) ? String(x) : size >= 0.01 ? x.toFixed(4) : String(+x.toPrecision(4))).replace("-", "−");
};

const entry = (view, p, cell) => `${place(view, p, cell)}: ${written(view.d.numbers[p.start + cell[0] * p.size[1] + cell[1]], p.truth)}`;

function point(view, cell) {
  const shown = shownOf(view), p = view.d.pictures[shown.picture];
  if (cell) {
    view.read.textContent = entry(view, p, cell);
    return;
  }
  const range = (axis, name) => (p.size[axis] < p.whole[axis] ? [`${name} ${p.first[axis]} to ${p.first[axis] + p.size[axis] - 1} of ${p.whole[axis]}`] : []);
  const ranges = [...range(0, "rows"), ...range(1, "columns")].join(", "); // of what is drawn in part
  const part = ranges && ` Drawn: ${ranges}.`;
  const colour = p.truth ? "Coloured: true; grey: false." : p.signed ? `Colour: ${p.hue < 0 ? "brown below zero, blue-green above" : "grey below zero, the KV head's hue above"}, up to ±${written(p.top)}.`
    : p.top ? `Colour: from 0 to ${written(p.top)}.` : "Every unmasked entry is 0.";
  const masked = p.masked ? " Grey: −∞, masked." : "";
  view.read.textContent = `${colour}${masked}${part} ${TOUCH ? "Tap an entry to read it and" : "Point at an entry to read it; click it"} to see how it was computed.`;
}

function pointSource(view, from, canvas, e) {
  const p = view.d.pictures[from.picture], cell = cellAt(canvas, p, e);
  if (cell) view.read.textContent = `${from.name}, ${entry(view, p, cell)}`;
}

function choose(view, cell) {
  if (!cell) return;
  pause(view);
  const p = view.d.pictures[shownOf(view).picture];
  clearTimeout(view.sending); // the entry's event contains the step
  view.sending = 0;
  view.send("entry", [view.stop, view.chip, cell[0] + p.first[0], cell[1] + p.first[1]]);
}

function moved(view, [down, right]) {
  const shown = shownOf(view), p = view.d.pictures[shown.picture];
  const row = shown.at[0] - p.first[0] + down, column = shown.at[1] - p.first[1] + right;
  if (row >= 0 && column >= 0 && row < p.size[0] && column < p.size[1]) choose(view, [row, column]);
}

// The line view in the browser: two columns of tokens, and between them a canvas as tall as the visible part.
import { begun, clamp, el, POINT, presses, slideHeight, TOUCH } from "./call.js";
import { named, once, painter, ratioOf, unpack, weightAt, weightText } from "./packed_weights.js";
import { saveButtons } from "./save_buttons.js";

const ROW = 20, LOWEST = 11, AROUND = 120; // CSS pixels: row height, the same where a presented text would not fit, height around the rows
const WIDEST = 7, MAX_LINES = 1500; // CSS pixels: thickness of weight 1; maximal number of lines

const HINT = TOUCH ? "Tap a token to see only its lines; tap it again for all."
  : "Point at a token to see only its lines; click it, or press Enter, to keep them. Arrow keys move.";

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".lv");
  const view = (root.view ??= create(root)), call = begun(root);
  document.addEventListener("attnviz-row", (e) => follow(view, e.detail), { signal: call.signal });
  if (view.bytes !== data) update(view, data);
  draw(view);
  return call.end;
}

function create(root) {
  const part = (name) => root.querySelector(name);
  const view = { root, title: part("h2"), note: part(".note"), tools: part(".tools"), read: part(".read"), heading: part(".heading"), scroll: part(".scroll"),
    sides: [part(".q"), part(".k")], canvas: part("canvas"), mass: 90, off: new Set(), at: null, pinned: null };
  view.canvas.shapes = (pen) => shapes(view, pen);
  view.paint = painter(view.scroll, () => paint(view));
  new ResizeObserver(() => draw(view)).observe(view.scroll);
  view.scroll.onscroll = () => draw(view);
  view.sides.forEach((side, axis) => {
    side.tabIndex = 0;
    side.setAttribute("role", "listbox");
    side.onpointermove = (e) => { if (e.target.at && String(e.target.at) !== String(view.at)) { look(view, e.target.at); tell(view); } };
    side.onpointerleave = () => { look(view, view.pinned); tell(view); };
    side.onclick = (e) => { if (e.target.at) keep(view, e.target.at); };
    side.onfocus = () => { if (side.matches(":focus-visible")) look(view, view.at?.[0] === axis ? view.at : [axis, view.at?.[1] ?? 0]); };
    side.onblur = () => look(view, view.pinned);
    side.onkeydown = (e) => key(view, axis, e);
  });
  return view;
}

function update(view, bytes) {
  const old = view.d, d = (view.d = unpack(bytes));
  view.bytes = bytes;
  if (JSON.stringify([old?.names, old?.alone]) !== JSON.stringify([d.names, d.alone])) view.off = new Set(d.alone && d.names.map((_, i) => i).filter((i) => i !== d.alone[1]));
  if (JSON.stringify([old?.labels, old?.first]) !== JSON.stringify([d.labels, d.first])) {
    view.pinned = view.at = null;
    view.sides.forEach((side, axis) => fill(view, side, axis));
  }
  view.title.textContent = d.title;
  view.note.textContent = d.note;
  tools(view);
  look(view, view.pinned);
  const legend = () => active(view).map((i) => [d.marks[i], d.names[i] + (d.reads[i] && ` reads ${d.reads[i]}`)]);
  saveButtons(view.root, () => ({ title: d.title ? "" : undefined, legend: legend(), unsaved: ".tools, .read, .note", stage: () => staged(view) }));
}

// For saving: all tokens, not only the visible ones, and the lines as vector shapes.
function staged({ scroll, heading, mass }) {
  const from = scroll.scrollTop, share = heading.children[1], before = share.textContent;
  scroll.style.maxHeight = "none";
  share.textContent = mass < 100 ? `the largest ${mass}% of each query’s weight` : "";
  return () => { scroll.style.maxHeight = ""; scroll.scrollTop = from; share.textContent = before; };
}

// ---- the elements

// The position of a query (axis 0) or key: of a token that a model wrote, "4 out".
const placeAt = (d, axis, i) => d.places?.[axis]?.[i] ?? i + d.first[axis];

function fill(view, side, axis) {
  const name = ["Queries", "Keys"][axis];
  side.setAttribute("aria-label", name);
  side.replaceChildren(...view.d.labels[axis].map((label, i) => {
    const row = el("div", ""), index = el("small", "", placeAt(view.d, axis, i)), shown = once(label, (way) => i + way in view.d.labels[axis]);
    const text = el(shown === label.slice(-shown.length) && shown !== label ? "small" : "bdi", "", shown);
    row.append(...(axis ? [index, text] : [text, index]));
    row.setAttribute("role", "option");
    row.title = label;
    row.id = "qk"[axis] + i;
    row.at = text.at = index.at = [axis, i];
    return row;
  }));
  const cut = (n) => {
    const { length } = view.d.labels[axis], first = view.d.first[axis], which = first ? `${first} to ${first + length - 1}` : `the first ${length}`;
    return n ? `: ${which}, ${n} more left out` : "";
  };
  view.heading.children[axis * 2].textContent = ["query", "key"][axis] + cut(view.d.left[axis]);
}

function tools(view) {
  const { d } = view, label = el("label", ""), range = el("input", ""), output = el("output", "");
  Object.assign(range, { type: "range", min: 5, max: 100, step: 5, value: view.mass });
  range.setAttribute("aria-label", "Share of each query's weight that is drawn, in percent");
  range.oninput = () => { view.mass = +range.value; output.textContent = `${view.mass}%`; view.cut = null; look(view, view.at); };
  output.textContent = `${view.mass}%`;
  label.append("show top", range, output, "of weight");
  view.tools.replaceChildren(...d.names.map((name, i) => chip(view, name, i)), label);
  view.cut = null;
}

function chip(view, name, i) {
  const button = el("button", "", name);
  button.style.setProperty("--hue", view.d.marks[i]);
  if (view.d.reads[i]) button.title = `reads ${view.d.reads[i]}`;
  button.setAttribute("aria-pressed", !view.off.has(i));
  button.onclick = () => {
    if (!view.off.delete(i)) view.off.add(i);
    button.setAttribute("aria-pressed", !view.off.has(i));
    look(view, view.at);
  };
  button.onpointerenter = () => { view.alone = i; draw(view); };
  button.onpointerleave = () => { view.alone = null; draw(view); };
  return button;
}

// For every head and query, the smallest cell that is drawn: the largest cells that together make `mass` percent of the row.
function cutoffs(view) {
  const { d, mass } = view, [H, , T, S] = d.shape, cut = new Uint16Array(H * T);
  for (let row = 0; row < H * T; row++) {
    const cells = d.cells.slice(row * S, (row + 1) * S).filter((cell) => cell <= d.steps).sort();
    const wanted = (cells.reduce((sum, cell) => sum + cell, 0) * mass) / 100;
    let i = cells.length, sum = 0;
    while (i > 0 && cells[i - 1] > 0 && sum < wanted - 1e-6) sum += cells[--i];
    cut[row] = cells[i] ?? 1;
  }
  return cut;
}

// Computed lazily, when the lines are visible: most changes happen while they are not.
const cutOf = (view) => (view.cut ??= cutoffs(view));

// ---- the selection

// In a notebook, the head's map, the text and the lines follow a query that is pointed at in one of them.
function follow(view, row) {
  if (view.telling || view.d.rowsFrom === undefined) return;
  const at = row === null ? view.pinned : [0, row - view.d.rowsFrom];
  if (!at || view.d.labels[at[0]][at[1]] !== undefined) look(view, at);
}

function tell(view) {
  if (view.d.rowsFrom === undefined) return;
  view.telling = true;
  document.dispatchEvent(new CustomEvent("attnviz-row", { detail: view.at?.[0] === 0 ? view.at[1] + view.d.rowsFrom : null }));
  view.telling = false;
}

function look(view, at) {
  const nothing = !at && !view.at; // no row is marked, and none has to be
  view.at = at;
  const shown = at && weights(view, at);
  view.root.classList.toggle("focus", !!at);
  if (!nothing) view.sides.forEach((side, axis) => {
    side.removeAttribute("aria-activedescendant");
    [...side.children].forEach((row, i) => {
      const here = !!at && at[0] === axis && at[1] === i, heads = at && at[0] !== axis ? shown[i] : [];
      row.classList.toggle("at", here);
      row.classList.toggle("pinned", !!view.pinned && view.pinned[0] === axis && view.pinned[1] === i);
      row.classList.toggle("off", !!at && !here && !heads.length);
      row.style.background = strips(view, heads);
      if (here) { side.setAttribute("aria-activedescendant", row.id); row.setAttribute("aria-selected", true); }
      else row.removeAttribute("aria-selected");
    });
  });
  showReadout(view, shown);
  draw(view);
}

const active = (view) => view.d.names.map((_, i) => i).filter((i) => !view.off.has(i));

// For every token of the other column, the lines drawn between it and the selected token: [[head, cell], …].
function weights(view, [axis, index]) {
  const { d, off } = view, cut = cutOf(view), [H, , T, S] = d.shape;
  return d.labels[1 - axis].map((_, other) => {
    const [q, k] = axis ? [other, index] : [index, other], found = [];
    for (let h = 0; h < H; h++) {
      const cell = d.cells[(h * T + q) * S + k];
      if (!off.has(h) && cell <= d.steps && cell >= cut[h * T + q]) found.push([h, cell, (h * T + q) * S + k]);
    }
    return found;
  });
}

// A token's background: one strip per head shown, in a fixed place, with the weight as opacity.
function strips(view, heads) {
  if (!heads.length) return "";
  const cells = new Map(heads), shown = active(view);
  const parts = shown.map((h, i) => {
    const share = cells.has(h) ? Math.round(8 + (72 * cells.get(h)) / view.d.steps) : 0;
    const from = (100 * i) / shown.length, to = (100 * (i + 1)) / shown.length;
    return `color-mix(in srgb, ${view.d.marks[h]} ${share}%, transparent) ${from}% ${to}%`;
  });
  return `linear-gradient(90deg, ${parts})`;
}

function showReadout(view, shown) {
  const { d, at, read } = view, nameOf = (axis, i) => named(placeAt(d, axis, i), d.labels[axis][i]);
  if (!at) return void (read.textContent = `${HINT} Line thickness = attention weight.`);
  const [axis, index] = at, line = [el("b", "", `${axis ? "Key" : "Query"} ${nameOf(axis, index)}`), axis ? " is read by: " : " reads: "];
  const all = shown.flatMap((heads, other) => heads.map(([h, cell, i]) => ({ h, cell, other, i }))).sort((a, b) => b.cell - a.cell);
  all.slice(0, 4).forEach(({ h, other, i: at }, i) =>
    line.push(i ? "; " : "", el("bdi", "", nameOf(1 - axis, other)), ` ${weightAt(d, at)}` + (d.names.length > 1 ? ` (${d.names[h]})` : "")));
  if (all.length > 4) line.push(`; and ${all.length - 4} more`);
  if (!all.length) line.push("no line is drawn");
  read.replaceChildren(...line);
}

function keep(view, at) {
  view.pinned = String(view.pinned) === String(at) ? null : at;
  look(view, at);
}

function key(view, axis, e) {
  const n = view.d.labels[axis].length, i = view.at?.[0] === axis ? view.at[1] : 0;
  const to = { ArrowUp: i - 1, ArrowDown: i + 1, Home: 0, End: n - 1, PageUp: i - 10, PageDown: i + 10 }[e.key];
  if (presses(e)) keep(view, [axis, i]);
  else if (e.key === "Escape") { if (view.pinned) keep(view, view.pinned); }
  else if (e.key === "ArrowLeft" || e.key === "ArrowRight") view.sides[e.key === "ArrowLeft" ? 0 : 1].focus();
  else if (to === undefined) return;
  else {
    look(view, [axis, clamp(to, 0, n - 1)]);
    tell(view);
    reveal(view, view.at[1]);
  }
  e.preventDefault();
}

function reveal({ scroll, row }, i) {
  scroll.scrollTop = Math.max((i + 2) * row - scroll.clientHeight, Math.min(scroll.scrollTop, (i - 1) * row));
}

// ---- the lines

function draw(view) {
  if (!view.d || view.waiting) return;
  view.waiting = requestAnimationFrame(() => { view.waiting = 0; view.paint(); });
}

// On a presenter's screen rows are lower, so that the whole text is in sight.
function fitRows(view) {
  const { shape } = view.d, row = Math.floor((slideHeight(view.root) - AROUND) / Math.max(shape[2], shape[3]));
  view.row = clamp(row, LOWEST, ROW);
  view.root.style.setProperty("--row", `${view.row}px`);
}

function paint(view) {
  fitRows(view);
  const { canvas, scroll, d } = view, ratio = ratioOf(view);
  const wide = canvas.parentElement.clientWidth, high = Math.min(scroll.clientHeight, view.row * Math.max(d.shape[2], d.shape[3]));
  if (!wide) return;
  canvas.style.height = high + "px";
  canvas.width = wide * ratio;
  canvas.height = high * ratio;
  const pen = canvas.getContext("2d"), first = Math.floor(scroll.scrollTop / view.row);
  pen.setTransform(ratio, 0, 0, ratio, 0, -scroll.scrollTop * ratio);
  const least = strokesOf(view, pen, first, first + high / view.row, wide);
  view.heading.children[1].textContent = least > 1 ? `weights from ${weightText(least, view.d.steps)}; ${POINT.toLowerCase()} a token for all of its lines` : "";
}

function shapes(view, pen) {
  strokesOf(view, pen, 0, Infinity, view.canvas.parentElement.clientWidth);
  return pen.shapes;
}

// Each line with an end between two tokens; returns the smallest weight that is drawn, in steps.
function strokesOf(view, pen, first, last, wide) {
  const { d } = view, shown = view.alone == null ? active(view) : [view.alone];
  const found = shown.map((h) => lines(view, h, first, last)), least = floor(found, d.steps);
  shown.forEach((h, i) => {
    const offset = (i - (shown.length - 1) / 2) * Math.min(4, 14 / shown.length); // so that heads of one hue do not hide each other
    pen.strokeStyle = d.marks[h];
    strokes(pen, shaded(found[i], least, d.steps), { wide, offset, row: view.row }, view.at ? 0.4 : 0.12);
  });
  return least;
}

// The lines of one head with a visible end: [cell, q, k, cell, q, k, …].
function lines(view, h, first, last) {
  const { d, at } = view, cut = cutOf(view), [, , T, S] = d.shape, found = [], seen = (i) => i >= first && i <= last;
  for (let q = 0; q < T; q++) {
    const row = (h * T + q) * S, least = Math.max(1, cut[h * T + q]);
    if (at && !at[0] && at[1] !== q) continue;
    for (let k = 0; k < S; k++) {
      const cell = d.cells[row + k];
      if (cell < least || cell > d.steps || (at?.[0] && at[1] !== k) || !(seen(q) || seen(k))) continue;
      found.push(cell, q, k);
    }
  }
  return found;
}

// The smallest cell that is drawn, if there are more than MAX_LINES lines.
function floor(found, steps) {
  const count = new Uint32Array(steps + 1);
  for (const of of found) for (let i = 0; i < of.length; i += 3) count[of[i]]++;
  let cell = steps + 1, n = 0;
  while (cell > 1 && n < MAX_LINES) n += count[--cell];
  return cell;
}

const SHADES = 255; // distinct thicknesses: lines of equal thickness are drawn as one path

// From a cell of `least` up: shade -> [q, k, q, k, …].
function shaded(found, least, steps) {
  const by = [];
  for (let i = 0; i < found.length; i += 3)
    if (found[i] >= least) (by[Math.round(SHADES * Math.sqrt(found[i] / steps))] ??= []).push(found[i + 1], found[i + 2]);
  return by;
}

function strokes(pen, shades, { wide, offset, row }, faintest) {
  shades.forEach((ends, shade) => {
    const weight = (shade / SHADES) ** 2;
    pen.globalAlpha = faintest + (0.95 - faintest) * weight;
    pen.lineWidth = Math.max(faintest < 0.3 ? 0.6 : 1, WIDEST * weight);
    pen.beginPath();
    for (let i = 0; i < ends.length; i += 2) {
      const y0 = (ends[i] + 0.5) * row + offset, y1 = (ends[i + 1] + 0.5) * row + offset;
      pen.moveTo(0, y0);
      pen.bezierCurveTo(wide / 2, y0, wide / 2, y1, wide, y1);
    }
    pen.stroke();
  });
}

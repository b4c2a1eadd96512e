// One head in the browser: its map with tokens on both axes. Hover, colours and marks are handled here; choosing another
// query or key is sent to the server.
import { begun, boxOf, el, isBrowsers, partsOf, pointOn, presses, slideHeight, TOUCH } from "./call.js";
import {
  beside, colours, fingers, hovering, isDark, painter, placeOf, rampOf, ratioOf, scale, sharply, sheet, short, sideOfKeys, sizeOf, unpack, ways, weightAt,
} from "./packed_weights.js";
import { foldAll } from "./folded.js";
import { saveButtons } from "./save_buttons.js";
import { fontOf, inks, labelsOf, name, NEUTRAL, ticks, upright, widest, word, writeTexts } from "./head_canvas.js";

const HINT = `${TOUCH ? "Tap a cell to read its weight and" : "Point at a cell to read its weight. Click it, or move with the arrow keys and press Enter,"} \
to select its query and key for the bars and for “One weight, step by step”.`;

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".hv");
  const view = (root.view ??= create(root)), call = begun(root);
  view.send = setTriggerValue;
  foldAll(root);
  // a head chosen in the grid: sent from here, so that only this part reruns
  document.addEventListener("attnviz-head", (e) => { view.send("head", e.detail); intoSight(root); }, { signal: call.signal });
  document.addEventListener("attnviz-row", (e) => { if (!view.telling) markRow(view, e.detail); }, { signal: call.signal }); // pointed at elsewhere
  update(view, data);
  return call.end;
}

// On a phone the head is below the grid that it was chosen in.
function intoSight(root) {
  const { top } = boxOf(root);
  if (top > 0.7 * innerHeight || top < 0) root.scrollIntoView({ block: "start", behavior: "smooth" });
}

function create(root) {
  const names = ["title", "note", "query", "key", "colour", "exclude", "pin", "read", "map", "bar", "whole", "hint", "calculation"];
  const view = { root, ...partsOf(root, names) };
  view.hint.textContent = HINT;
  view.paint = painter(root, () => paint(view));
  root.fill = () => paint(view);
  new ResizeObserver(() => requestAnimationFrame(view.paint)).observe(root);
  document.fonts.load(fontOf(view)).then(view.paint, () => {}); // repaint once the font has loaded
  view.query.onchange = () => choose(view, +view.query.value, view.d.chosen);
  view.key.onchange = () => choose(view, view.d.query, +view.key.value);
  view.colour.onchange = view.exclude.onchange = () => chooseScale(view);
  view.pin.onclick = () => view.send("pin", !view.d.pinned);
  view.map.onpointermove = hovering((e) => point(view, e));
  view.map.onpointerleave = hovering(() => showReadout(view, null));
  fingers(view.map, (e) => point(view, e));
  view.map.onclick = (e) => { point(view, e); if (view.cell) choose(view, ...view.cell); };
  view.map.onkeydown = (e) => key(view, e);
  return view;
}

function update(view, bytes) {
  const old = view.d, d = (view.d = bytes === view.bytes ? old : unpack(bytes));
  view.bytes = bytes;
  view.dark = isDark(view.root);
  writeTexts(view, d.texts);
  if (!old || placesOf(old) !== placesOf(d)) offer(view);
  Object.assign(view.query, { value: d.query });
  Object.assign(view.key, { value: d.chosen });
  Object.assign(view.colour, { value: d.scale });
  Object.assign(view.exclude, { checked: d.exclude });
  view.calculation.hidden = !d.texts.whole;
  view.pin.hidden = d.pinned === undefined;
  view.pin.textContent = d.pinned ? "Unpin this head" : "Pin to compare";
  view.map.setAttribute("aria-label", d.alt);
  document.dispatchEvent(new CustomEvent("attnviz-shown", { detail: d.head })); // the grid marks it, wherever it was chosen
  showReadout(view, null); // the map is painted when it is in sight
  view.paint();
  saveButtons(view.root, () => ({ title: "", legend: d.legend, unsaved: ".tools, .read, .hint, i[hidden]", stage: (ratio) => sharply(view, () => paintMap(view), ratio) }));
}

const placesOf = (d) => JSON.stringify([d.labels, d.positions, d.keys]);

function offer({ d, query, key }) {
  const options = (side) => side.labels.map((label, i) => Object.assign(el("option", "", `${placeOf(side, i)} ${short(label)}`), { value: i }));
  query.replaceChildren(...options(d));
  key.replaceChildren(Object.assign(el("option", "", "strongest key"), { value: -1 }), ...options(sideOfKeys(d)));
}

// ---- the map

function paint(view) {
  if (!view.root.clientWidth) return;
  paintMap(view);
  paintBar(view);
  showReadout(view, view.cell); // its mark is elsewhere in another size
}

function paintMap(view) {
  const { d, map } = view, [, , T, S] = d.shape, full = map.clientWidth, ratio = ratioOf(view);
  const ink = map.firstElementChild.getContext("2d"), across = view.ratio || slideHeight(view.root) < Infinity ? Math.min(full - 90, roomOf(view)) : full - 90, columns = ticks(S, across, d.key), columnNames = labelsOf(sideOfKeys(d), full, columns);
  ink.font = fontOf(view);
  const top = widest(ink, columns, columnNames), wanted = Math.min(roomOf(view, top), full);
  const rows = ticks(T, wanted, d.query), rowNames = labelsOf(d, full, rows);
  const plot = (view.plot = { left: widest(ink, rows, rowNames), top, T, S });
  const wide = full - plot.left - 2, cell = Math.min(wide / S, wanted / T), square = !!view.ratio || slideHeight(view.root) < Infinity;
  plot.width = square ? cell * S : wide; // enlarged or saved, its cells are square; on the page it is as wide as its column
  plot.height = square ? cell * T : wanted;
  sheet(map.firstElementChild, Math.round(full * ratio), Math.round((plot.top + plot.height + 2) * ratio), ratio);
  const px = (v) => Math.round(v * ratio), image = scale(d.cells, T, S, px(plot.width), px(plot.height), tableOf(d, view), d.steps + 1);
  ink.putImageData(image, px(plot.left), px(plot.top));
  if (d.exclude) ink.putImageData(scale(firstColumn(d, T, S), T, 1, Math.ceil(px(plot.width) / S), px(plot.height), greys(d)), px(plot.left), px(plot.top));
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (Math.max(T, S) <= 40) gaps(ink, plot);
  frame(ink, plot.left, plot.top + (d.query * plot.height) / T, plot.width, plot.height / T);
  frame(ink, plot.left + (d.key * plot.width) / S, plot.top, plot.width / S, plot.height);
  write(ink, view, plot, rowNames, columnNames);
}

// The height in which the map fits: in the window, on a slide or screen, or in a saved picture. top: pixels of the labels above.
function roomOf({ root, map, d, ratio }, top = 0) {
  const wanted = Math.max(20 * d.shape[2], 180), slide = slideHeight(root), section = map.parentElement;
  if (ratio) return Math.min(wanted, 600);
  if (slide === Infinity) return Math.min(wanted, 500, Math.max(0.46 * innerHeight, 240));
  const beside = getComputedStyle(section).display === "grid", others = beside ? 0 : section.offsetHeight - map.offsetHeight;
  return Math.max(slide - others - top - 4, 160);
}

function tableOf(d, view) {
  const top = d.tops[+d.exclude], [stops] = d.ramps[view.dark ? "dark" : "light"];
  return colours(stops, d.masked, d.steps, (weight) => SCALES[d.scale].along(Math.min(1, weight / top), decades(d)), d.below?.[view.dark ? "dark" : "light"]);
}

// Of each colour scale: the place on the ramp of a share of its top, and the share at a place.
const SCALES = {
  root: { along: Math.sqrt, shareAt: (along) => along ** 2 },
  linear: { along: (share) => share, shareAt: (along) => along },
  log: {
    along: (share, decades) => Math.max(0, 1 + Math.log10(Math.max(share, 1e-9)) / decades),
    shareAt: (along, decades) => 10 ** (decades * (along - 1)),
  },
};

// Decades of the logarithmic scale: from its top down to the last printed decimal.
const decades = (d) => Math.log10(d.tops[+d.exclude] * d.steps);

const firstColumn = (d, T, S) => Uint16Array.from({ length: T }, (_, q) => (d.cells[q * S] === d.steps + 1 ? d.steps + 1 : sizeOf(d.cells[q * S], d.steps)));

function greys(d) {
  const table = new Uint8ClampedArray(4 * (d.steps + 2));
  for (let i = 0; i <= d.steps; i++) table.set([125, 125, 125, 255 * (i / d.steps)], 4 * i);
  table.set([...d.masked.slice(0, 3), 255 * d.masked[3]], 4 * (d.steps + 1));
  return new Uint32Array(table.buffer);
}

function gaps(ink, { left, top, width, height, T, S }) {
  for (let q = 1; q < T; q++) ink.clearRect(left, top + (q * height) / T - 0.5, width, 1);
  for (let k = 1; k < S; k++) ink.clearRect(left + (k * width) / S - 0.5, top, 1, height);
}

function frame(ink, x, y, width, height) {
  ink.strokeStyle = NEUTRAL;
  ink.lineWidth = 2;
  ink.strokeRect(x, y, width, height);
}

function write(ink, view, { left, top, width, height, T, S }, rowNames, columnNames) {
  ink.font = fontOf(view);
  ink.textBaseline = "middle";
  ink.textAlign = "right";
  const { soft, strong } = inks(view.note, view.title), { query, key } = view.d;
  for (const [q, label] of Object.entries(rowNames)) word(ink, label, left - 5, top + ((+q + 0.5) * height) / T, +q === query ? strong : soft);
  for (const [k, label] of Object.entries(columnNames)) upright(ink, label, left + ((+k + 0.5) * width) / S, top - 5, "left", +k === key ? strong : soft);
}

function paintBar({ d, bar, dark }) {
  const top = d.tops[+d.exclude], [stops] = d.ramps[dark ? "dark" : "light"];
  const below = d.below?.[dark ? "dark" : "light"], share = (along) => top * SCALES[d.scale].shareAt(along, decades(d));
  const marked = (v) => v * (d.unit ?? 1);
  bar.lastChild.textContent = below ? "effective weight" : "weight";
  bar.firstElementChild.style.background = rampOf([...(below ? [...below].reverse() : []), ...stops]);
  const marks = below ? [-share(1), -share(0.5), 0, share(0.5), share(1)] : [0, 0.25, 0.5, 0.75, 1].map(share);
  bar.lastElementChild.replaceChildren(...marks.map((v) => el("span", "", String(+marked(v).toPrecision(3)).replace("-", "−"))));
}

// ---- pointer and keys

// The number of tokens is not the plot's: a map out of sight is painted later than it has another text.
function point(view, e) {
  const { left, top, width, height } = view.plot, [, , T, S] = view.d.shape, [right, down] = pointOn(view.map, e);
  const x = (right - left) / width, y = (down - top) / height;
  const inside = x >= 0 && x < 1 && y >= 0 && y < 1;
  showReadout(view, inside ? [Math.floor(y * T), Math.floor(x * S)] : null);
}

function key(view, e) {
  const way = ways[e.key], [, , T, S] = view.d.shape, [q, k] = view.cell ?? [view.d.query, view.d.key];
  if (isBrowsers(e)) return;
  if (presses(e)) choose(view, q, k);
  else if (way) showReadout(view, beside([q, k], way, [T, S]));
  else return;
  e.preventDefault();
}

// Shows immediately what the browser knows; the server's answer agrees, and has the scores.
function choose(view, query, chosen) {
  const { d } = view, row = d.cells.subarray(query * d.shape[3], (query + 1) * d.shape[3]);
  const most = () => row.reduce((best, c, k) => (c !== d.steps + 1 && (best < 0 || sizeOf(c, d.steps) > sizeOf(row[best], d.steps)) ? k : best), -1);
  Object.assign(d, { query, chosen, key: chosen >= 0 ? chosen : Math.max(0, most()) });
  view.query.value = query;
  view.key.value = chosen;
  paintMap(view);
  view.send("cell", [query, chosen]);
}

function chooseScale(view) {
  const { colour, exclude } = view;
  Object.assign(view.d, { scale: colour.value, exclude: exclude.checked });
  paintMap(view);
  paintBar(view);
  view.send("scale", [colour.selectedIndex, exclude.checked]);
}

// ---- texts

function showReadout(view, cell) {
  const { d, read } = view, [q, k] = cell ?? [d.query, d.key];
  view.cell = cell;
  view.telling = true;
  document.dispatchEvent(new CustomEvent("attnviz-row", { detail: cell && (d.tokens?.[q] ?? q) })); // the text is shaded by this query
  view.telling = false;
  document.dispatchEvent(new CustomEvent("attnviz-key", { detail: cell && k })); // a picture outlines its patch
  const outside = d.exclude && !k ? "outside the colour scale, weight " : "weight ";
  read.replaceChildren("Query ", name(d, q), " → key ", name(sideOfKeys(d), k), ": ", el("b", "", weightAt(d, q * d.shape[3] + k, outside)));
  place(view, cell && { left: k, top: q, across: 1 });
}

// Marks a row that is pointed at in the text or the lines; null for none.
function markRow(view, token) {
  const { d, cell } = view, row = token === null || !d.tokens ? token : d.keys ? d.tokens.indexOf(token) : d.tokens.findIndex((last) => last >= token);
  if (token === null) place(view, cell && { left: cell[1], top: cell[0], across: 1 });
  else if (row >= 0 && row < d.shape[2]) place(view, { left: 0, top: row, across: d.shape[3] });
}

// Puts the mark on cells, or hides it; a map out of sight is not painted yet.
function place({ map, plot }, at) {
  const mark = map.lastElementChild;
  mark.hidden = !at || !plot;
  if (at && plot) Object.assign(mark.style, { left: `${plot.left + (at.left * plot.width) / plot.S}px`, top: `${plot.top + (at.top * plot.height) / plot.T}px`,
    width: `${Math.max(5, (at.across * plot.width) / plot.S)}px`, height: `${Math.max(5, plot.height / plot.T)}px` });
}


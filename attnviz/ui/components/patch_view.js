// A picture cut into patches, in the browser: each is as bright as the weight that the query gives it. In self-attention the hovered
// patch is the query; in cross-attention, where the queries are another text's tokens, its weight is read.
import { begun, clamp, el, isBrowsers, partsOf, pointOn, presses } from "./call.js";
import { hovering, named, painter, placeOf, ratioOf, scaledSheet, sideOfKeys, unpack, weightAt } from "./packed_weights.js";
import { saveButtons } from "./save_buttons.js";

const WIDEST = 480, DARKEST = 0.85; // CSS pixels; opacity of the black over a patch without weight

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".pv");
  const view = (root.view ??= create(root)), call = begun(root);
  view.send = setTriggerValue;
  document.addEventListener("attnviz-row", (e) => { if (e.detail === null || e.detail < view.d.shape[2]) show(view, e.detail ?? view.d.query); }, { signal: call.signal });
  update(view, data);
  return call.end;
}

function create(root) {
  const view = { root, ...partsOf(root, ["title", "read", "picture", "note"]) };
  view.canvas = view.picture.firstElementChild;
  view.paint = painter(root, () => paint(view));
  new ResizeObserver(() => requestAnimationFrame(view.paint)).observe(root);
  view.picture.onpointermove = hovering((e) => point(view, patchAt(view, e)));
  view.picture.onpointerleave = hovering(() => point(view, null));
  view.picture.onclick = (e) => choose(view, patchAt(view, e));
  view.picture.onkeydown = (e) => key(view, e);
  return view;
}

function update(view, data) {
  const old = view.d, d = (view.d = data === view.data ? old : unpack(data));
  view.data = data;
  if (old?.picture !== d.picture) view.image = imageOf(d.picture);
  view.at = undefined;
  view.patch = null;
  show(view, d.query);
  saveButtons(view.root, () => ({ title: "", legend: [[d.mark, d.name]], unsaved: ".note", stage: (ratio) => { view.ratio = ratio; paint(view); view.ratio = undefined; return () => paint(view); } }));
}

function imageOf({ width, height, bytes }) {
  const canvas = Object.assign(el("canvas", ""), { width, height }), ink = canvas.getContext("2d"), image = ink.createImageData(width, height);
  for (let i = 0; i < width * height; i++) image.data.set([bytes[3 * i], bytes[3 * i + 1], bytes[3 * i + 2], 255], 4 * i);
  ink.putImageData(image, 0, 0);
  return canvas;
}

const nameOf = ({ d }, patch) => named(placeOf(sideOfKeys(d), patch + d.before), d.keys.labels[patch + d.before]);
const rowOf = (d, patch) => patch + d.before - (d.first ?? 0);
const weightHere = ({ d, at }, patch) => d.valueAt(at * d.shape[3] + patch + d.before);
const all = ({ d }) => Array.from({ length: d.patches[0] * d.patches[1] }, (_, patch) => patch);

// ---- the picture

function paint(view) {
  const { d, canvas, image, root } = view, [rows, columns] = d.patches, ratio = ratioOf(view);
  if (!root.clientWidth) return;
  const wide = Math.min(root.clientWidth, WIDEST), high = (wide * d.picture.height) / d.picture.width, ink = scaledSheet(canvas, wide, high, ratio);
  const weights = all(view).map((patch) => weightHere(view, patch)), most = Math.max(...weights) || 1;
  ink.drawImage(image, 0, 0, wide, high);
  const box = (patch) => { // whole pixels, so that patches neither overlap nor leave gaps
    const edge = (i, n, size) => Math.round((i * size * ratio) / n) / ratio, row = Math.floor(patch / columns), column = patch % columns;
    const x = edge(column, columns, wide), y = edge(row, rows, high);
    return [x, y, edge(column + 1, columns, wide) - x, edge(row + 1, rows, high) - y];
  };
  for (const patch of all(view)) {
    ink.fillStyle = `rgba(0, 0, 0, ${DARKEST * (1 - Math.sqrt(weights[patch] / most))})`;
    ink.fillRect(...box(patch));
  }
  const marked = d.two ? view.patch : view.at - rowOf(d, 0);
  if (marked !== null && marked >= 0 && marked < rows * columns) frame(ink, box(marked));
}

function frame(ink, [x, y, width, height]) {
  for (const [colour, lineWidth] of [["#000", 4], ["#fff", 2]]) {
    Object.assign(ink, { strokeStyle: colour, lineWidth });
    ink.strokeRect(x + 1, y + 1, width - 2, height - 2);
  }
}

// ---- pointer and keys

function patchAt(view, e) {
  const [x, y] = pointOn(view.canvas, e), [rows, columns] = view.d.patches, { clientWidth, clientHeight } = view.canvas;
  return clamp(Math.floor((y / clientHeight) * rows), 0, rows - 1) * columns + clamp(Math.floor((x / clientWidth) * columns), 0, columns - 1);
}

// The head's map, the text and the lines follow a patch that is a query.
const tell = (row) => document.dispatchEvent(new CustomEvent("attnviz-row", { detail: row }));

function point(view, patch) {
  if (patch === view.patch) return;
  view.patch = patch;
  if (view.d.two) { showReadout(view); view.paint(); }
  else tell(patch === null ? null : rowOf(view.d, patch));
}

function choose(view, patch) {
  if (patch !== null && !view.d.two) view.send("query", [rowOf(view.d, patch), 0]);
}

function key(view, e) {
  const [rows, columns] = view.d.patches, step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[e.key];
  if (isBrowsers(e)) return;
  if (presses(e)) choose(view, view.patch);
  else if (step) point(view, clamp((view.patch ?? clamp(view.at - rowOf(view.d, 0), 0, rows * columns - 1)) + step, 0, rows * columns - 1));
  else return;
  e.preventDefault();
}

// ---- texts

function show(view, row) {
  if (view.at === row) return;
  view.at = row;
  showReadout(view);
  view.paint();
}

function showReadout(view) {
  const { d, at, patch, title, read } = view, weights = all(view).map((each) => weightHere(view, each)), sum = weights.reduce((a, b) => a + b, 0);
  const shown = d.two && patch !== null ? patch : weights.indexOf(Math.max(...weights));
  title.textContent = `Picture shaded by the weights of query ${named(placeOf(d, at), d.labels[at])}`;
  const which = d.two && patch !== null ? "" : "strongest ", weight = weightAt(d, at * d.shape[3] + shown + d.before);
  read.textContent = `${d.name}: patches take ${sum.toPrecision(3)} of the weight; ${which}${nameOf(view, shown)}: ${weight}.`;
}

// A picture in the browser: each patch is as bright as the weight that a query gives it. A patch that is pointed at is the query, as in
// a text; a key that is pointed at in the head's map is outlined.
// data: header {labels, positions, queries, picture: [height, width], patches: [rows, columns], before, query, asks, name, mark}, the cells
// of one map (T, S), then the picture as bytes of red, green and blue.
import { begun, clamp, el, isBrowsers, partsOf, pointOn, presses } from "./call.js";
import { beside, fingers, hovering, named, painter, parts, placeOf, printed, ratioOf, scaledSheet, sharply, ways, weightText } from "./packed_weights.js";
import { saveButtons } from "./save_buttons.js";

const DARKEST = 0.82; // of a patch without weight

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".pv"), view = (root.view ??= create(root)), call = begun(root);
  view.send = setTriggerValue;
  // what is pointed at in the head's map; null when the pointer leaves it
  document.addEventListener("attnviz-row", (e) => { if (!view.telling) show(view, e.detail ?? view.d.query); }, { signal: call.signal });
  document.addEventListener("attnviz-key", (e) => outline(view, e.detail), { signal: call.signal });
  update(view, data);
  return call.end;
}

function create(root) {
  const view = { root, key: null, ...partsOf(root, ["title", "strongest", "before", "frame", "note"]) };
  view.canvas = view.frame.firstElementChild;
  view.paint = painter(root, () => paint(view));
  new ResizeObserver(() => requestAnimationFrame(view.paint)).observe(view.frame);
  view.frame.onpointermove = hovering((e) => look(view, patchAt(view, e)));
  view.root.onpointerleave = hovering(() => look(view, null));
  fingers(view.frame, (e) => look(view, patchAt(view, e)));
  view.frame.onclick = (e) => choose(view, patchAt(view, e));
  view.before.onpointermove = hovering((e) => { const token = e.target.closest(".token"); if (token) look(view, token.at); });
  view.before.onclick = (e) => { const token = e.target.closest(".token"); if (token) choose(view, token.at); };
  view.frame.onkeydown = (e) => key(view, e);
  return view;
}

function update(view, bytes) {
  const d = (view.d = bytes === view.bytes ? view.d : unpacked(bytes));
  view.bytes = bytes;
  view.root.style.setProperty("--hue", d.mark);
  view.before.replaceChildren(...d.labels.slice(0, d.before).map((label, at) => Object.assign(el("span", "token", label), { at })));
  view.at = undefined;
  show(view, d.query);
  saveButtons(view.root, () => ({ title: "", legend: [[d.mark, d.name]], unsaved: ".strongest", stage: (ratio) => sharply(view, () => paint(view), ratio) }));
}

function unpacked(bytes) {
  const [d, buffer] = parts(bytes), [, , T, S] = d.shape, [height, width] = d.picture;
  const cells = new Uint16Array(buffer, 0, T * S), rgb = new Uint8Array(buffer, 2 * T * S), image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) image.data.set([rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2], 255], 4 * i);
  const drawn = Object.assign(el("canvas", ""), { width, height });
  drawn.getContext("2d").putImageData(image, 0, 0);
  return { ...d, cells, drawn };
}

const cell = ({ d, at }, k) => d.cells[at * d.shape[3] + k];

// ---- the drawing

function paint(view) {
  const { d, frame, canvas } = view, width = frame.clientWidth, height = (width * d.picture[0]) / d.picture[1];
  if (!width) return;
  const ink = scaledSheet(canvas, width, height, ratioOf(view));
  ink.imageSmoothingEnabled = d.picture[1] > width / 2; // a small picture stays sharp
  ink.drawImage(d.drawn, 0, 0, width, height);
  for (let k = d.before; k < d.shape[3]; k++) {
    ink.fillStyle = `rgba(0, 0, 0, ${DARKEST * (1 - Math.sqrt(cell(view, k) / view.most))})`;
    ink.fillRect(...placeOn(d, k, width, height));
  }
  if (d.asks) frameOf(ink, placeOn(d, view.at, width, height), "#fff");
  if (view.key !== null && view.key !== view.at) frameOf(ink, placeOn(d, view.key, width, height), d.mark);
}

function placeOn(d, k, width, height) {
  const [rows, columns] = d.patches, i = k - d.before, x = i % columns, y = Math.floor(i / columns);
  const [left, right] = [x, x + 1].map((at) => Math.round((at * width) / columns)), [top, bottom] = [y, y + 1].map((at) => Math.round((at * height) / rows));
  return i < 0 ? [0, 0, 0, 0] : [left, top, right - left, bottom - top];
}

function frameOf(ink, [x, y, width, height], colour) {
  if (!width) return;
  for (const [thick, ground] of [[5, "#000"], [2.5, colour]]) {
    ink.lineWidth = thick;
    ink.strokeStyle = ground;
    ink.strokeRect(x + 2.5, y + 2.5, width - 5, height - 5);
  }
}

// ---- pointer and keys

function patchAt({ d, frame }, e) {
  const [right, down] = pointOn(frame, e), [rows, columns] = d.patches, width = frame.clientWidth, height = (width * d.picture[0]) / d.picture[1];
  const x = Math.floor((right * columns) / width), y = Math.floor((down * rows) / height);
  return x < 0 || y < 0 || x >= columns || y >= rows ? null : d.before + y * columns + x;
}

// A patch that is pointed at is the query where the queries are patches too; otherwise it is a key of the query.
function look(view, patch) {
  if (!view.d.asks) return outline(view, patch);
  view.telling = true;
  document.dispatchEvent(new CustomEvent("attnviz-row", { detail: patch }));
  view.telling = false;
  show(view, patch ?? view.d.query);
}

function choose(view, patch) {
  if (patch === null || !view.d.asks) return;
  view.d.query = patch;
  view.send("query", [patch, 0]);
}

function key(view, e) {
  const { d } = view, way = ways[e.key];
  if (isBrowsers(e)) return;
  if (presses(e)) choose(view, view.at);
  else if (way) look(view, next(d, d.asks ? view.at : view.key ?? d.before, way));
  else return;
  e.preventDefault();
}

// The patch beside another one. The tokens before the patches are a row above them.
function next(d, at, way) {
  const [rows, columns] = d.patches, i = at - d.before;
  if (i < 0) return way[0] > 0 ? d.before : clamp(at + way[1], 0, d.before - 1);
  if (way[0] < 0 && i < columns && d.before) return Math.min(i, d.before - 1);
  const [y, x] = beside([Math.floor(i / columns), i % columns], way, [rows, columns]);
  return d.before + y * columns + x;
}

// ---- texts

const quote = (d, k) => named(placeOf(d, k), d.labels[k]);
const asked = (d, q) => (d.queries ? named(placeOf(d.queries, q), d.queries.labels[q]) : quote(d, q));

function show(view, q) {
  if (view.at === q || q >= view.d.shape[2]) return;
  view.at = q;
  view.most = Math.max(1, ...Array.from(view.d.cells.subarray(q * view.d.shape[3] + view.d.before, (q + 1) * view.d.shape[3])));
  for (const token of view.before.children) {
    token.classList.toggle("query", token.at === q && view.d.asks);
    token.style.setProperty("--share", `${65 * Math.sqrt(cell(view, token.at) / view.d.steps)}%`);
  }
  view.paint();
  write(view);
}

function outline(view, k) {
  view.key = k;
  for (const token of view.before.children) token.classList.toggle("key", token.at === k);
  view.paint();
  write(view);
}

function write(view) {
  const { d, at, key: k } = view, weight = (i) => `${quote(d, i)} ${weightText(cell(view, i), d.steps)}`;
  const most = d.labels.map((_, i) => i).sort((a, b) => cell(view, b) - cell(view, a)).slice(0, 3);
  view.title.textContent = `Picture shaded by the weights of query ${asked(d, at)}`;
  view.strongest.textContent = `${d.name}, ${k === null ? `largest weights: ${most.map(weight).join(", ")}` : `key ${weight(k)}`}.`;
  view.note.textContent = `A patch is as bright as the square root of its weight; full brightness is ${printed(view.most / d.steps)}, the largest of this query on a patch.`;
}

// Maps of one text side by side, each with a colour scale of its own; a cell that is pointed at in one is marked in all.
// data: header {labels, maps: [{title, note, alt, name, factor, top, below, ramps, dots}], masked, query, key, legend}, cells (1, N, T, T).
import { begun, el, isBrowsers, pointOn, slideHeight, TOUCH } from "./call.js";
import { beside, colours, fingers, hovering, isDark, named, painter, printed, rampOf, ratioOf, scale, sharply, sheet, unpack, ways, weightOf } from "./packed_weights.js";
import { fontOf, inks, labelsOf, ticks, upright, widest, word } from "./head_canvas.js";
import { saveButtons } from "./save_buttons.js";

const LARGEST = 460, SMALL = 6; // pixels: of a map's side; of a cell in which a dot is not seen

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".lm"), view = (root.view ??= create(root)), call = begun(root);
  update(view, data);
  return call.end;
}

function create(root) {
  const view = { root, maps: root.querySelector(".maps"), read: root.querySelector(".read") };
  view.paint = painter(root, () => paint(view));
  root.fill = () => paint(view);
  new ResizeObserver(() => requestAnimationFrame(view.paint)).observe(root);
  document.fonts.load(fontOf({ root })).then(view.paint, () => {}); // repaint once the font has loaded
  return view;
}

function update(view, bytes) {
  if (bytes !== view.bytes) {
    view.d = unpack(bytes);
    view.bytes = bytes;
    view.cell = null;
    build(view);
  }
  view.dark = isDark(view.root);
  show(view);
  view.paint();
  saveButtons(view.root, () => ({ title: "", legend: view.d.legend, unsaved: ".hint, .mark", stage: (ratio) => sharply(view, () => paint(view), ratio) }));
}

function build(view) {
  view.parts = view.d.maps.map((each) => {
    const section = el("section", ""), map = el("div", "map"), value = el("b", ""), bar = el("div", "bar"), line = el("p", "value");
    map.append(el("canvas", ""), el("i", "mark"));
    Object.assign(map, { tabIndex: 0, role: "img" });
    map.setAttribute("role", "img");
    map.setAttribute("aria-label", each.alt);
    line.append(`${each.name} `, value);
    bar.append(el("i", ""), el("div", ""));
    section.append(el("h2", "", each.title), el("p", "note", each.note), map, line, bar);
    const part = { ...each, map, value, bar, title: section.firstChild, note: section.children[1] };
    map.onpointermove = hovering((e) => point(view, part, e));
    map.onpointerleave = hovering(() => show(view, null));
    fingers(map, (e) => point(view, part, e));
    map.onkeydown = (e) => key(view, e);
    return part;
  });
  view.maps.replaceChildren(...view.parts.map(({ map }) => map.parentElement));
  view.root.querySelector(".hint").textContent = `${TOUCH ? "Tap" : "Point at"} a cell: the same query and key are marked in ${view.parts.length > 2 ? "all maps" : "both maps"}.${TOUCH ? "" : " Arrow keys move the mark."}`;
}

// ---- the pixels

function paint(view) {
  if (!view.root.clientWidth) return;
  view.parts.forEach((part, i) => { paintMap(view, part, i); paintBar(view, part); });
  show(view, view.cell);
}

function paintMap(view, part, i) {
  const { d } = view, [, , T, S] = d.shape, { map } = part, full = map.clientWidth, ratio = ratioOf(view), ink = map.firstChild.getContext("2d");
  const slide = slideHeight(view.root), most = slide < Infinity ? Math.max(slide - 180, 160) : view.ratio ? LARGEST : Math.min(LARGEST, Math.max(0.45 * innerHeight, 240));
  ink.font = fontOf(view);
  const [query, key] = view.cell ?? [d.query, d.key];
  const columns = ticks(S, full - 70, key), columnNames = labelsOf(d, full, columns), rows = ticks(T, Math.min(most, full), query), rowNames = labelsOf(d, full, rows);
  const left = widest(ink, rows, rowNames), top = widest(ink, columns, columnNames), side = Math.min(full - left - 2, most);
  part.plot = { left, top, side };
  sheet(map.firstChild, Math.round(full * ratio), Math.round((top + side + 2) * ratio), ratio);
  const px = (v) => Math.round(v * ratio), cells = d.cells.subarray(i * T * S, (i + 1) * T * S);
  ink.putImageData(scale(cells, T, S, px(side), px(side), tableOf(view, part), d.steps + 1), px(left), px(top));
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (part.dots) dots(view, ink, part, T, S);
  ink.font = fontOf(view);
  ink.textBaseline = "middle";
  const { soft, strong } = inks(part.note, part.title);
  ink.textAlign = "right";
  for (const [q, label] of Object.entries(rowNames)) word(ink, label, left - 5, top + ((+q + 0.5) * side) / T, +q === query ? strong : soft);
  for (const [k, label] of Object.entries(columnNames)) upright(ink, label, left + ((+k + 0.5) * side) / S, top - 5, "left", +k === key ? strong : soft);
}

function tableOf({ d, dark }, { ramps, below, top }) {
  const mode = dark ? "dark" : "light";
  return colours(ramps[mode], d.masked, d.steps, (size) => Math.sqrt(Math.min(1, size / top)), below?.[mode]);
}

// A dot in each cell that is kept; where cells are small, a veil over the others.
function dots(view, ink, { dots: kept, plot: { left, top, side } }, T, S) {
  const cell = side / S, small = cell < SMALL, { color, backgroundColor } = getComputedStyle(view.root);
  const ground = getComputedStyle(view.root).getPropertyValue("--st-background-color").trim() || backgroundColor;
  ink.fillStyle = small ? ground : color;
  ink.globalAlpha = small ? 0.75 : 1;
  kept.forEach((keys, q) => {
    const has = new Set(keys);
    for (let k = 0; k <= Math.min(q, S - 1); k++) {
      if (small === has.has(k)) continue;
      const size = small ? cell : Math.max(2, cell / 5);
      ink.fillRect(left + k * cell + (cell - size) / 2, top + (q * side) / T + (side / T - size) / 2, size, size);
    }
  });
  ink.globalAlpha = 1;
}

function paintBar({ dark }, { bar, ramps, below, top, factor }) {
  const mode = dark ? "dark" : "light", end = top * factor;
  bar.firstChild.style.background = rampOf([...(below ? [...below[mode]].reverse() : []), ...ramps[mode]]);
  const marks = below ? [-end, -end / 4, 0, end / 4, end] : [0, end / 4, end];
  const at = below ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1]; // a square-root scale
  bar.lastChild.replaceChildren(...marks.map((v, i) => Object.assign(el("span", "", String(+v.toPrecision(2)).replace("-", "−")), { style: `left: ${100 * at[i]}%` })));
}

// ---- pointer and keys

function point(view, { map, plot }, e) {
  if (!plot) return;
  const [, , T, S] = view.d.shape, [x, y] = pointOn(map, e).map((at, i) => (at - [plot.left, plot.top][i]) / plot.side);
  show(view, x >= 0 && x < 1 && y >= 0 && y < 1 ? [Math.floor(y * T), Math.floor(x * S)] : null);
}

function key(view, e) {
  const way = ways[e.key], [, , T, S] = view.d.shape;
  if (!way || isBrowsers(e)) return;
  show(view, beside(view.cell ?? [view.d.query, view.d.key], way, [T, S]));
  e.preventDefault();
}

function show(view, cell = view.cell) {
  const { d } = view, [, , T, S] = d.shape, [q, k] = cell ?? [d.query, d.key];
  view.cell = cell;
  view.read.replaceChildren("Query ", el("span", "", named(q, d.labels[q])), " → key ", el("span", "", named(k, d.labels[k])));
  view.parts.forEach(({ map, value, plot, factor, dots: kept }, i) => {
    const code = d.cells[(i * T + q) * S + k], mark = map.lastChild;
    const size = code === d.steps + 1 ? "masked" : printed(weightOf(code, d.steps) * factor);
    value.textContent = size + (kept && code !== d.steps + 1 ? (kept[q].includes(k) ? ", kept" : ", not kept") : "");
    mark.hidden = !plot;
    if (plot) Object.assign(mark.style, { left: `${plot.left + (k * plot.side) / S}px`, top: `${plot.top + (q * plot.side) / T}px`,
      width: `${Math.max(5, plot.side / S)}px`, height: `${Math.max(5, plot.side / T)}px` });
  });
}

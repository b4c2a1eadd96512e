// The tensors of a line of `source_walk` as canvases: rows down, columns to the right; and an entry's terms as bars.
import { ratioOf, short } from "./packed_weights.js";

const GAP = 2; // pixels between bars

export const shownOf = (view) => view.d.stops[view.stop].shown[view.chip];

export function paint(view) {
  const shown = shownOf(view), { d } = view;
  if (!view.main.clientWidth) return;
  const p = d.pictures[shown.picture];
  draw(view, view.canvas, p, shown.at[0] - p.first[0], shown.at[1] - p.first[1], view.main.clientWidth, 350, true);
  [...view.from.querySelectorAll("canvas")].forEach((canvas, i) => {
    const from = shown.sources[i], q = d.pictures[from.picture], used = from.used;
    const at = used?.map((x, axis) => (x === null ? null : x - q.first[axis]));
    draw(view, canvas, q, at ? at[0] : undefined, at ? at[1] : undefined, view.from.clientWidth, 120, false);
  });
  paintBars(view, shown);
}

// row, column: the marked entry; null for a whole axis, undefined for none.
function draw(view, canvas, p, row, column, width, height, large) {
  const [n, m] = p.size, label = large && p.tokens[0] ? 74 : large ? 26 : 0, top = large ? 16 : 0;
  const most = large ? 26 : 9, wide = Math.max(2, Math.min(most, (width - label) / m)), high = Math.max(2, Math.min(most, height / n, large ? 26 : 9));
  const W = label + wide * m, H = top + high * n, ratio = ratioOf(view);
  Object.assign(canvas, { width: Math.ceil(W * ratio), height: Math.ceil(H * ratio), geometry: { label, top, wide, high } });
  Object.assign(canvas.style, { width: `${W}px`, height: `${H}px` });
  const pen = canvas.getContext("2d"), colour = colourOf(view, p);
  pen.scale(ratio, ratio);
  for (let r = 0; r < n; r++)
    for (let c = 0; c < m; c++) {
      pen.fillStyle = colour(view.d.numbers[p.start + r * m + c]);
      const x = label + c * wide, y = top + r * high;
      pen.fillRect(x, y, Math.ceil(x + wide) - x, Math.ceil(y + high) - y);
    }
  const ink = getComputedStyle(view.root).color;
  if (large) labels(view, pen, p, { label, top, wide, high }, ink, row, column);
  pen.strokeStyle = ink;
  pen.lineWidth = large ? 1.5 : 1;
  if (row !== undefined && row !== null && (large || column === null)) pen.strokeRect(label, top + row * high, wide * m, high);
  if (column !== undefined && column !== null && (large || row === null)) pen.strokeRect(label + column * wide, top, wide, high * n);
  if (!large && row != null && column != null) pen.strokeRect(column * wide - 1, row * high - 1, wide + 2, high + 2);
}

function labels(view, pen, p, { label, top, wide, high }, ink, row, column) {
  pen.fillStyle = ink;
  pen.font = `12px ${getComputedStyle(view.root).fontFamily}`;
  pen.textBaseline = "middle";
  const every = (size, room) => Math.max(1, Math.ceil(room / size));
  const write = (text, x, y, most) => pen.fillText(text, x, y, most);
  pen.textAlign = "right";
  for (let r = 0; r < p.size[0]; r += every(high, 13)) {
    const i = r + p.first[0];
    if (Math.abs(r - row) * high < 13 && r !== row) continue;
    write(p.tokens[0] ? `${short(nameOf(view, p, 0, i), 7)} ${i + p.text[0]}` : i, label - 4, top + (r + 0.5) * high, label - 6);
  }
  if (row >= 0) write(p.tokens[0] ? `${short(nameOf(view, p, 0, row + p.first[0]), 7)} ${row + p.first[0] + p.text[0]}` : row + p.first[0], label - 4, top + (row + 0.5) * high, label - 6);
  pen.textAlign = "center";
  // Columns are numbered as closely as their numbers fit, the marked one always.
  const number = (c) => String(c + p.first[1]), half = (c) => pen.measureText(number(c)).width / 2;
  const room = Math.max(26, 2 * half(p.size[1] - 1) + 6), right = label + p.size[1] * wide;
  const marked = Math.min(label + (column + 0.5) * wide, right - half(column));
  for (let c = 0; c < p.size[1]; c += every(wide, room)) {
    const x = label + (c + 0.5) * wide;
    if (!(Math.abs(x - marked) < room) && x + half(c) <= right) write(number(c), x, 8);
  }
  if (column >= 0 && column < p.size[1]) write(number(column), marked, 8);
}

// Sequential colours without negative numbers, otherwise diverging around 0; grey for masked.
function colourOf(view, p) {
  const ramps = view.d.ramps[view.dark ? "dark" : "light"].at(p.hue), masked = `rgba(${view.d.masked.join(",")})`, table = new Map();
  return (x) => {
    if (!Number.isFinite(x) || (p.truth && !x)) return masked;
    const step = Math.round((16 * Math.sqrt(Math.abs(x) / (p.top || 1)))) * Math.sign(x);
    if (!table.has(step)) table.set(step, `rgb(${ramps[step < 0 ? 0 : 1][Math.abs(step)].join(",")})`);
    return table.get(step);
  };
}

function paintBars(view, shown) {
  const canvas = view.bars, ratio = ratioOf(view), n = shown.bars.length;
  if (!n) return;
  const width = Math.min(canvas.parentElement.clientWidth - 24, 26 * n), height = 90, top = Math.max(...shown.bars.map(Math.abs)) || 1;
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const pen = canvas.getContext("2d"), p = view.d.pictures[shown.picture], ramps = view.d.ramps[view.dark ? "dark" : "light"].at(p.hue);
  pen.scale(ratio, ratio);
  const low = Math.min(0, ...shown.bars) / top, zero = height * (1 / (1 - low));
  shown.bars.forEach((bar, i) => {
    pen.fillStyle = `rgb(${ramps[bar < 0 ? 0 : 1][12].join(",")})`;
    const size = (bar / top) * zero;
    pen.fillRect((i * width) / n + GAP / 2, zero - Math.max(0, size), Math.max(1, width / n - GAP), Math.max(0.5, Math.abs(size)));
  });
}

// The token of a row or column, of the text or, for a column over the vocabulary, of the vocabulary.
export const nameOf = (view, p, axis, i) => (p.tokens[axis] ? view.d.labels[i + p.text[axis]] ?? "" : (axis && p.names[i - p.first[1]]) || "");

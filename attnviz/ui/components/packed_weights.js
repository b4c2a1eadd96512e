// Shared by the components that show weights: decoding of the payload, colours, labels and printed numbers.
import { clamp, el, jsonOf, zoomOf } from "./call.js";

// A label that is cut off; one with letters written from right to left is isolated, so that they do not move its neighbours.
export const short = (label, most = 24) => isolated([...label].length > most ? [...label].slice(0, most - 1).join("") + "…" : label);
export const isolated = (text) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(text) ? `\u2068${text}\u2069` : text);

// A row or column by its place and label: "4 “the”".
export const named = (place, label, most) => `${place} “${short(label, most)}”`;

// The position of a row or column: of a character of several tokens, "4–6"; of a token that a model wrote, "4 out".
export const placeOf = (d, i) => d.positions?.[i] ?? i;

// The labels and positions of the columns: the rows' own, unless the keys are other tokens.
export const sideOfKeys = (d) => d.keys ?? d;

// "床 1/3", "床 2/3", "床 3/3" beside each other on an axis as "床", "2/3", "3/3": `beside(±1)` says whether that neighbour is shown.
export function once(label, beside) {
  const [, character, part] = label.match(/^(.+) (\d+\/\d+)$/s) ?? [], first = part?.startsWith("1/");
  return part && beside(first ? 1 : -1) ? (first ? character : part) : label;
}

export const ways = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }; // rows down, columns right

// The header of a payload, and its body as a buffer of its own, in which numbers of any size are aligned.
export function parts(bytes) {
  const start = 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  return [jsonOf(bytes.subarray(4, start)), bytes.slice(start).buffer];
}

export function unpack(bytes) {
  if (bytes.cells) return bytes; // as a notebook's page has them
  const [header, buffer] = parts(bytes), body = new Uint16Array(buffer), [L, H, N, M] = header.shape;
  if (!header.triangle) return { ...header, cells: body };
  const cells = new Uint16Array(L * H * N * M).fill(header.steps + 1);
  for (let from = 0, map = 0; map < L * H; map++)
    for (let q = 0; q < N; q++) {
      const n = Math.min(q + 1, M);
      cells.set(body.subarray(from, from + n), (map * N + q) * M);
      from += n;
    }
  return { ...header, cells };
}

// The cell beside another one, or that at the edge.
export const beside = ([row, column], [down, right], [rows, columns]) => [clamp(row + down, 0, rows - 1), clamp(column + right, 0, columns - 1)];

// ---- colours

export const rampOf = (stops) => `linear-gradient(90deg, ${stops.map((c) => `rgb(${c})`)})`;

const darkness = {}; // cache by colour: reading a pixel back takes a millisecond

export function isDark(root) {
  const ground = getComputedStyle(root).getPropertyValue("--st-background-color").trim() || "#fff";
  return (darkness[ground] ??= sumOf(ground) < 384);
}

function sumOf(colour) {
  const probe = el("canvas", "").getContext("2d");
  probe.fillStyle = colour;
  probe.fillRect(0, 0, 1, 1);
  const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
  return r + g + b;
}

// The colour [r, g, b] at a share of the way along a ramp, unrounded.
export function colourAt(stops, share) {
  const at = share * (stops.length - 1), n = Math.min(at | 0, stops.length - 2);
  return [0, 1, 2].map((c) => stops[n][c] + (at - n) * (stops[n + 1][c] - stops[n][c]));
}

// Colour table for every possible cell; `along` maps a weight's size to its position on the ramp. below: the ramp of negative weights.
export function colours(stops, masked, steps, along = Math.sqrt, below = null) {
  const shades = shadesOf(stops, masked), table = new Uint32Array((below ? 2 : 1) * (steps + 1) + 1).fill(shades[256]), under = below && shadesOf(below, masked);
  for (let i = 0; i <= steps; i++) {
    const at = Math.round(255 * along(i / steps));
    table[i] = shades[at];
    if (i && under) table[steps + 1 + i] = under[at];
  }
  return table;
}

function shadesOf(stops, masked) {
  const shades = new Uint8ClampedArray(4 * 257);
  for (let i = 0; i < 256; i++) shades.set([...colourAt(stops, i / 255), 255], 4 * i);
  shades.set([...masked.slice(0, 3), masked[3] * 255], 4 * 256);
  return new Uint32Array(shades.buffer);
}

// The size of a cell's weight, in steps: cells beyond the masked one are negative weights.
export const sizeOf = (cell, steps) => (cell > steps ? cell - steps - 1 : cell);

// The weight of a cell that is not masked.
export const weightOf = (cell, steps) => (cell > steps ? steps + 1 - cell : cell) / steps;

// Paints immediately if the element is visible, or nearly, otherwise when it becomes visible.
export function painter(element, paint) {
  let near = true, due = false;
  new IntersectionObserver(([at]) => {
    near = at.isIntersecting;
    if (near && due) paint();
    due &&= !near;
  }, { scrollMargin: "300px" }).observe(element);
  return () => { due = !near; if (near) paint(); };
}

export const ratioOf = (view) => view.ratio ?? (window.devicePixelRatio || 1) * zoomOf(view.root);

// Repaints for saving, with `ratio` pixels per CSS pixel; returns what paints as before.
export function sharply(view, paint, ratio) {
  view.ratio = ratio;
  paint();
  view.ratio = undefined;
  return paint;
}

// Clears the canvas and sets its size in device pixels, with `ratio` of them per CSS pixel.
export function sheet(canvas, width, height, ratio) {
  const ink = canvas.getContext("2d");
  if (canvas.width === width && canvas.height === height) ink.reset(); // setting the width would allocate a new buffer
  else Object.assign(canvas, { width, height });
  Object.assign(canvas.style, { width: `${width / ratio}px`, height: `${height / ratio}px` });
  return ink;
}

// The same with a size in CSS pixels, which are the units of what is drawn.
export function scaledSheet(canvas, width, height, ratio) {
  const ink = sheet(canvas, Math.round(width * ratio), Math.round(height * ratio), ratio);
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ink;
}

// Every device pixel shows the largest weight of its cells, so that no line is lost when cells are smaller than pixels.
export function scale(cells, N, M, width, height, table, masked = table.length - 1) {
  const image = new ImageData(width, height), out = new Uint32Array(image.data.buffer);
  const rows = edges(N, height), columns = edges(M, width);
  for (let y = 0, last = -1; y < height; y++) {
    const q0 = rows[y], q1 = Math.max(q0 + 1, rows[y + 1]), one = q1 === q0 + 1;
    if (one && q0 === last) { out.copyWithin(y * width, (y - 1) * width, y * width); continue; }
    for (let x = 0; x < width; x++) {
      const k0 = columns[x], k1 = Math.max(k0 + 1, columns[x + 1]);
      out[y * width + x] = table[one && k1 === k0 + 1 ? cells[q0 * M + k0] : largest(cells, M, q0, q1, k0, k1, masked)];
    }
    last = one ? q0 : -1;
  }
  return image;
}

// The first of n cells under each of `size` pixels, and n at the end.
const edges = (n, size) => Int32Array.from({ length: size + 1 }, (_, i) => Math.floor((i * n) / size));

function largest(cells, M, q0, q1, k0, k1, masked) {
  let most = -1, size = -1;
  for (let q = q0; q < q1; q++)
    for (let k = k0; k < k1; k++) { const c = cells[q * M + k], s = sizeOf(c, masked - 1); if (c !== masked && s > size) [most, size] = [c, s]; }
  return most < 0 ? masked : most;
}

// ---- text

// A cell has steps of a ten-thousandth: of a smaller weight it only tells that it is smaller.
export const weightText = (cell, steps, before = "") => (cell === steps + 1 ? "masked" : before + (cell ? printed(weightOf(cell, steps)) : "< 0.0001"));

// The weight of the cell at this index; a notebook's page has more digits of it than the cell.
export const weightAt = (d, at, before = "") => (d.textOf && d.cells[at] !== d.steps + 1 ? before + d.textOf(at) : weightText(d.cells[at], d.steps, before));

// A score, weight or probability as the server prints it: "0.3101", "3.1·10⁻⁶", "0". The server sends rounded numbers, so that
// nothing is rounded twice.
export function printed(value) {
  if (!value || Math.abs(value) >= 0.00005) return value ? value.toFixed(4).replace("-", "−") : "0";
  return powerOfTen(value, 1);
}

// "3.1·10⁻⁶", with so many decimals.
export function powerOfTen(value, decimals) {
  const [mantissa, power] = value.toExponential(decimals).split("e");
  return `${mantissa}·10${[...String(+power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("")}`.replace("-", "−");
}

// A long press reads the cell under the finger, and keeps reading as it moves; other touches scroll or pinch the page.
const LONG_PRESS = 350, TOUCH_SLOP = 12; // milliseconds, pixels

export function fingers(element, read) {
  let timer = 0, start = null, held = false;
  const readAt = (touch) => read({ clientX: touch.clientX, clientY: touch.clientY, target: element.getRootNode().elementFromPoint(touch.clientX, touch.clientY) ?? element });
  const stop = () => { clearTimeout(timer); start = null; };
  element.addEventListener("touchstart", (e) => {
    stop();
    held = false;
    const touch = e.touches[0];
    if (e.touches.length > 1) return;
    start = [touch.clientX, touch.clientY];
    timer = setTimeout(() => { held = true; readAt(touch); }, LONG_PRESS);
  }, { passive: true });
  element.addEventListener("touchmove", (e) => {
    const touch = e.touches[0];
    if (held) { e.preventDefault(); readAt(touch); }
    else if (start && Math.hypot(touch.clientX - start[0], touch.clientY - start[1]) > TOUCH_SLOP) stop();
  }, { passive: false });
  element.addEventListener("touchend", (e) => { if (held) e.preventDefault(); stop(); }); // no click after a long press
  element.addEventListener("touchcancel", stop);
  element.addEventListener("contextmenu", (e) => { if (held || start) e.preventDefault(); });
}

// Handlers for hovering pointers only: a lifted finger has no position, and its last reading stays.
export const hovering = (then) => (e) => { if (e.pointerType !== "touch") then(e); };

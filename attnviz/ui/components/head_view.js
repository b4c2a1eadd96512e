// One head in the browser: its map with tokens on both axes, or the way of one query from score to weight. Pointing,
// colours and marks are answered here; another query or key is asked of the server, which knows the scores.

const TEXT = 12, LINE = 15; // pixels: labels on the axes, and the room that one takes across
const NEUTRAL = "#7d7d7d", FAINT = "rgba(128, 128, 128, 0.35)";

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".hv");
  const view = (root.view ??= create(root)), call = begun(root);
  view.send = setTriggerValue;
  // chosen in the grid: asked from here, since only this part changes
  if (view.map) document.addEventListener("attnviz-head", (e) => { view.send("head", e.detail); intoSight(root); }, { signal: call.signal });
  update(view, data);
  return call.end;
}

// On a phone the head stands below the grid that it was chosen in.
function intoSight(root) {
  const { top } = root.getBoundingClientRect();
  if (top > 0.7 * innerHeight || top < 0) root.scrollIntoView({ block: "start", behavior: "smooth" });
}

function create(root) {
  const part = (name) => root.querySelector("." + name);
  const view = { root };
  for (const name of ["title", "note", "query", "key", "colour", "exclude", "pin", "read", "map", "bar", "role", "scored", "from", "steps", "said", "path", "whole", "sum"])
    view[name] = part(name);
  view.paint = painter(root, () => paint(view));
  new ResizeObserver(() => requestAnimationFrame(view.paint)).observe(root);
  document.fonts.load(fontOf(view)).then(view.paint, () => {}); // what was written before the font came is written again
  if (view.map) listenToMap(view);
  else listenToPath(view);
  return view;
}

function listenToMap(view) {
  view.query.onchange = () => choose(view, +view.query.value, view.d.chosen);
  view.key.onchange = () => choose(view, view.d.query, +view.key.value);
  view.colour.onchange = view.exclude.onchange = () => look(view, view.colour.value === "log", view.exclude.checked);
  view.pin.onclick = () => view.send("pin", !view.d.pinned);
  view.map.onpointermove = (e) => point(view, e);
  view.map.onpointerleave = () => tell(view, null);
  view.map.onclick = (e) => { point(view, e); if (view.cell) choose(view, ...view.cell); };
  view.map.onkeydown = (e) => key(view, e);
}

function listenToPath(view) {
  view.path.onpointermove = (e) => tellKey(view, keyAt(view, e));
  view.path.onpointerleave = () => tellKey(view, null);
  view.path.onclick = (e) => { const k = keyAt(view, e); if (k !== null) choose(view, view.d.query, k); };
}

function update(view, bytes) {
  const old = view.d, d = (view.d = bytes === view.bytes ? old : unpack(bytes));
  view.bytes = bytes;
  view.dark = isDark(view.root);
  for (const [name, text] of Object.entries(d.texts)) if (view[name]) view[name].textContent = text;
  if (view.map) updateMap(view, old?.labels.join("\n") !== d.labels.join("\n"));
  else view.path.setAttribute("aria-label", d.alts[1]);
  view.paint();
  saveButtons(view.root, () => ({ title: "", legend: d.legend, unsaved: ".tools, .read, .hint, .said, i[hidden]", stage: () => staged(view) }));
}

function updateMap(view, otherText) {
  const { d } = view;
  if (otherText) offer(view);
  Object.assign(view.query, { value: d.query });
  Object.assign(view.key, { value: d.chosen });
  Object.assign(view.colour, { value: d.log ? "log" : "linear" });
  Object.assign(view.exclude, { checked: d.exclude });
  view.pin.textContent = d.pinned ? "Unpin this head" : "Pin to compare";
  view.map.setAttribute("aria-label", d.alts[0]);
  document.dispatchEvent(new CustomEvent("attnviz-shown", { detail: d.head })); // the grid marks it, whoever chose it
}

// To be saved: sharp at twice the size.
function staged(view) {
  const paintAll = () => (view.map ? paintMap(view) : paintPath(view));
  sharply(view, paintAll);
  return paintAll;
}

function offer({ d, query, key }) {
  const options = () => d.labels.map((label, i) => Object.assign(el("option", "", `${i} ${short(label)}`), { value: i }));
  query.replaceChildren(...options());
  key.replaceChildren(Object.assign(el("option", "", "strongest key"), { value: -1 }), ...options());
}

// ---- the map

function paint(view) {
  if (!view.root.clientWidth) return;
  if (view.map) {
    paintMap(view);
    paintBar(view);
    tell(view, null);
  } else {
    paintPath(view);
    tellKey(view, null);
  }
}

function paintMap(view) {
  const { d, map } = view, [, , T, S] = d.shape, full = map.clientWidth, ratio = ratioOf(view);
  const ink = map.firstElementChild.getContext("2d"), names = labelsOf(d, full);
  ink.font = fontOf(view);
  const most = Math.min(Math.max(20 * T, 180), 500, full, Math.max(0.46 * innerHeight, 240)); // in sight as a whole
  const rows = ticks(T, most, d.query), columns = ticks(S, full - 90, d.key);
  const plot = (view.plot = { left: widest(ink, rows, names), top: widest(ink, columns, names), T, S });
  plot.width = full - plot.left - 2;
  plot.height = most;
  sheet(map.firstElementChild, Math.round(full * ratio), Math.round((plot.top + most + 2) * ratio), ratio);
  const px = (v) => Math.round(v * ratio), image = scale(d.cells, T, S, px(plot.width), px(plot.height), tableOf(d, view));
  ink.putImageData(image, px(plot.left), px(plot.top));
  if (d.exclude) ink.putImageData(scale(firstColumn(d, T, S), T, 1, Math.ceil(px(plot.width) / S), px(plot.height), greys(d)), px(plot.left), px(plot.top));
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (Math.max(T, S) <= 40) gaps(ink, plot);
  frame(ink, plot.left, plot.top + (d.query * plot.height) / T, plot.width, plot.height / T);
  frame(ink, plot.left + (d.key * plot.width) / S, plot.top, plot.width / S, plot.height);
  write(ink, view, plot, names, rows, columns);
}

const labelsOf = (d, width) => d.labels.map((label, i) => `\u2068${short(label, width < 420 ? 9 : 14)}\u2069 ${i}`);
const fontOf = (view) => `${TEXT}px ${getComputedStyle(view.root).fontFamily}`;
const widest = (ink, ticks, names) => Math.ceil(8 + Math.max(...ticks.map((i) => ink.measureText(names[i]).width)));

// Which of n labels there is room for: at round distances, and always the selected one.
function ticks(n, room, looked) {
  const least = (n * LINE) / room, size = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = [1, 2, 5, 10].map((m) => m * size).find((m) => m >= least), near = Math.ceil(least);
  const all = Array.from({ length: Math.ceil(n / step) }, (_, i) => i * step);
  return [...all.filter((i) => i === looked || Math.abs(i - looked) >= near), ...(all.includes(looked) ? [] : [looked])];
}

function tableOf(d, view) {
  const top = d.tops[+d.exclude], stops = d.ramps[view.dark ? "dark" : "light"];
  const share = (weight) => Math.min(1, weight / top);
  const along = d.log ? (weight) => Math.max(0, 1 + Math.log10(Math.max(share(weight), 1e-9)) / decades(d)) : share;
  return colours(stops, d.masked, d.steps, along);
}

// How many powers of ten the logarithmic scale covers: from its top down to the last decimal that is printed.
const decades = (d) => Math.log10(d.tops[+d.exclude] * d.steps);

const firstColumn = (d, T, S) => Uint16Array.from({ length: T }, (_, q) => d.cells[q * S]);

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

// What the canvas writes with: strong for the selected token.
function inks(view) {
  const [soft, strong] = [view.note ?? view.steps, view.title ?? view.from].map((each) => getComputedStyle(each).color);
  return { soft, strong };
}

function write(ink, view, { left, top, width, height, T, S }, names, rows, columns) {
  ink.font = fontOf(view);
  ink.textBaseline = "middle";
  ink.textAlign = "right";
  const { soft, strong } = inks(view), { query, key } = view.d;
  for (const q of rows) word(ink, names[q], left - 5, top + ((q + 0.5) * height) / T, q === query ? strong : soft);
  for (const k of columns) upright(ink, names[k], left + ((k + 0.5) * width) / S, top - 5, "left", k === key ? strong : soft);
}

function word(ink, text, x, y, colour) {
  ink.fillStyle = colour;
  ink.fillText(text, x, y);
}

function upright(ink, text, x, y, align, colour) {
  ink.save();
  ink.translate(x, y);
  ink.rotate(-Math.PI / 2);
  ink.textAlign = align;
  word(ink, text, 0, 0, colour);
  ink.restore();
}

function paintBar({ d, bar, dark }) {
  const top = d.tops[+d.exclude], stops = d.ramps[dark ? "dark" : "light"];
  bar.firstElementChild.style.background = `linear-gradient(90deg, ${stops.map((c) => `rgb(${c})`)})`;
  const marks = [0, 1, 2, 3, 4].map((i) => (d.log ? top * 10 ** (decades(d) * (i / 4 - 1)) : (top * i) / 4));
  bar.lastElementChild.replaceChildren(...marks.map((v) => el("span", "", String(+v.toPrecision(2)))));
}

// ---- the path

function paintPath(view) {
  const { d, path } = view, n = d.scores.length, full = path.clientWidth, ratio = ratioOf(view);
  const ink = path.firstElementChild.getContext("2d"), names = labelsOf(d, full), left = 34;
  ink.font = fontOf(view);
  const columns = ticks(n, full - left, d.key), foot = widest(ink, columns, names), row = 120, bars = 92;
  sheet(path.firstElementChild, Math.round(full * ratio), Math.round((3 * row + foot) * ratio), ratio);
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  ink.font = fontOf(view);
  ink.textBaseline = "middle";
  const low = Math.min(0, ...d.scores), high = Math.max(0, ...d.scores), pad = 0.05 * (high - low || 1);
  const plot = (view.way = { left, width: full - left - 2, n }), { soft, strong } = inks(view);
  [d.scores, d.scores, d.weights].forEach((values, i) => {
    const [from, to] = i < 2 ? [low - pad, high + pad] : [0, 1.05], top = i * row + row - bars;
    const y = (v) => top + bars * (1 - (v - from) / (to - from));
    ink.textAlign = "left";
    word(ink, d.stages[i], left, top - 10, strong);
    axis(ink, plot, y, from, to, soft);
    values.forEach((v, k) => bar(ink, d, plot, k, i, top, bars, y(0), y(v)));
  });
  for (const k of columns) upright(ink, names[k], left + ((k + 0.5) * plot.width) / n, 3 * row + 5, "right", k === d.key ? strong : soft);
}

function axis(ink, { left, width }, y, from, to, colour) {
  const rough = (to - from) / 4, size = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((m) => m * size >= rough) * size;
  ink.textAlign = "right";
  for (let v = Math.ceil(from / step) * step; v <= to; v += step) {
    ink.fillStyle = FAINT;
    ink.fillRect(left, Math.round(y(v)), width, 0.5);
    word(ink, String(+v.toPrecision(3)), left - 5, y(v), colour);
  }
}

function bar(ink, d, { left, width, n }, k, stage, top, height, zero, end) {
  const cell = width / n, x = left + k * cell;
  if (stage && !d.allowed[k]) {
    ink.fillStyle = `rgba(${d.masked})`;
    ink.fillRect(Math.round(x), top, Math.round(x + cell) - Math.round(x), height); // no seam, no overlap
    return;
  }
  ink.fillStyle = d.allowed[k] ? d.mark : FAINT;
  ink.fillRect(x + 0.075 * cell, Math.min(zero, end), Math.max(0.85 * cell, 0.6), Math.max(Math.abs(end - zero), 0.5));
}

// ---- pointer and keys

function point(view, e) {
  const { left, top, width, height, T, S } = view.plot, box = view.map.getBoundingClientRect();
  const x = (e.clientX - box.left - left) / width, y = (e.clientY - box.top - top) / height;
  const inside = x >= 0 && x < 1 && y >= 0 && y < 1;
  tell(view, inside ? [Math.floor(y * T), Math.floor(x * S)] : null);
}

function keyAt(view, e) {
  const { left, width, n } = view.way, x = (e.clientX - view.path.getBoundingClientRect().left - left) / width;
  return x >= 0 && x < 1 ? Math.floor(x * n) : null;
}

function key(view, e) {
  const way = ways[e.key], { T, S } = view.plot, [q, k] = view.cell ?? [view.d.query, view.d.key];
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  if (e.key === "Enter" || e.key === " ") choose(view, q, k);
  else if (way) tell(view, [Math.max(0, Math.min(T - 1, q + way[0])), Math.max(0, Math.min(S - 1, k + way[1]))]);
  else return;
  e.preventDefault();
}

// At once what the browser knows; the server's answer says the same, and has the scores.
function choose(view, query, chosen) {
  const { d } = view, row = d.cells.subarray(query * d.shape[3], (query + 1) * d.shape[3]);
  const most = () => row.reduce((best, c, k) => (c <= d.steps && (best < 0 || c > row[best]) ? k : best), -1);
  Object.assign(d, { query, chosen, key: chosen >= 0 ? chosen : Math.max(0, most()) });
  if (view.map) {
    view.query.value = query;
    view.key.value = chosen;
    paintMap(view);
  }
  view.send("cell", [query, chosen]);
}

function look(view, log, exclude) {
  Object.assign(view.d, { log, exclude });
  paintMap(view);
  paintBar(view);
  view.send("look", [log, exclude]);
}

// ---- texts

const name = (d, i) => el("bdi", "", `${i} “${short(d.labels[i])}”`);

function tell(view, cell) {
  const { d, map, plot, read } = view, [q, k] = cell ?? [d.query, d.key], mark = map.lastElementChild;
  view.cell = cell;
  const outside = d.exclude && !k ? "outside the colour scale, weight " : "weight ";
  read.replaceChildren("Query ", name(d, q), " → key ", name(d, k), ": ", el("b", "", weightText(d.cells[q * plot.S + k], d.steps, outside)));
  mark.hidden = !cell;
  Object.assign(mark.style, { left: `${plot.left + (k * plot.width) / plot.S}px`, top: `${plot.top + (q * plot.height) / plot.T}px`,
    width: `${Math.max(5, plot.width / plot.S)}px`, height: `${Math.max(5, plot.height / plot.T)}px` });
}

function tellKey(view, at) {
  const { d, path, way, said } = view, k = at ?? d.key, mark = path.lastElementChild;
  const weight = d.allowed[k] ? ["weight ", el("b", "", printed(d.weights[k]))] : ["masked, so it has no weight"];
  said.replaceChildren("Key ", name(d, k), `: score ${printed(d.scores[k])}, `, ...weight);
  mark.hidden = at === null;
  Object.assign(mark.style, { left: `${way.left + (k * way.width) / way.n}px`, width: `${Math.max(1, way.width / way.n)}px` });
}

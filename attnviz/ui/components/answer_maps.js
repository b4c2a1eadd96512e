// Attention maps side by side: hover shows a cell's weight; a map or a cell can be chosen.
import { begun, clamp, el, isBrowsers, jsonOf, pageColour, POINT, pointOn, presses, roundStep, TOUCH } from "./call.js";
import { beside, colourAt, isDark, named, printed, ratioOf, scaledSheet, sharply, sheet, ways } from "./packed_weights.js";
import { saveButtons } from "./save_buttons.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".am");
  const view = (root.view ??= create(root)), call = begun(root);
  view.pick = (map, row, column) => setTriggerValue("pick", [map, [row, column]]);
  update(view, data);
  return call.end;
}

function create(root) {
  const view = { root, boxes: root.querySelector(".maps"), read: root.querySelector(".read"), scale: root.querySelector(".scale canvas"), ends: root.querySelectorAll(".scale i"), swatch: root.querySelector(".masked") };
  new ResizeObserver(() => requestAnimationFrame(() => paint(view))).observe(view.boxes);
  return view;
}

function update(view, bytes) {
  view.d = jsonOf(bytes);
  view.dark = isDark(view.root);
  const { d } = view;
  view.unscaled = !d.maps.some((map) => map.rows.flat().some((w) => w)); // a mask: no weights, only allowed and masked pairs
  view.root.classList.toggle("unscaled", view.unscaled);
  view.boxes.style.setProperty("--most", `${d.width}px`);
  view.boxes.style.setProperty("--all", d.perRow ? "none" : `${d.maps.length * (d.width + 24)}px`);
  view.boxes.style.gridTemplateColumns = d.perRow ? `repeat(${d.perRow}, minmax(64px, 1fr))` : "";
  view.boxes.classList.toggle("small", Boolean(d.perRow));
  view.figures = d.maps.map((map, i) => figure(view, map, i));
  view.boxes.replaceChildren(...view.figures.map((each) => each.box));
  view.ends[0].textContent = d.below ? `effective weight −${printed(d.top)}` : "weight 0";
  view.ends[1].textContent = d.below ? printed(d.top) : "1";
  view.swatch.style.background = `rgba(${d.masked.join(",")})`;
  paint(view);
  showReadout(view, null);
  if (d.title) saveButtons(view.root, () => ({ title: d.title, unsaved: ".read", stage: (ratio) => sharply(view, () => paint(view), ratio) }));
}

function figure(view, map, i) {
  const { d } = view, box = el("figure", ""), title = el("figcaption", "", map.title), canvas = el("canvas", "");
  const found = { box, canvas, map, i, at: null, N: map.rows.length, M: map.rows[0].length };
  canvas.tabIndex = 0;
  canvas.setAttribute("role", d.pick === "map" ? "button" : "application");
  canvas.setAttribute("aria-label", `${map.title ? `Map ${map.title}` : "Map"}: ${found.N} ${d.axes[0]} rows, ${found.M} ${d.axes[1]} columns.${d.pick === "cell" ? " Arrows move, Enter chooses the cell." : d.pick ? " Enter chooses the map." : ""}`);
  canvas.style.cursor = d.pick ? "pointer" : "crosshair";
  canvas.onpointermove = (e) => point(view, found, cellAt(found, e));
  canvas.onpointerleave = () => point(view, found, null);
  canvas.onclick = (e) => choose(view, found, cellAt(found, e));
  canvas.onkeydown = (e) => key(view, found, e);
  box.append(...(map.title ? [title] : []), canvas);
  return found;
}

function cellAt({ canvas, geometry, N, M }, e) {
  const [x, y] = pointOn(canvas, e), { left, top, size } = geometry;
  const row = Math.floor((y - top) / size), column = Math.floor((x - left) / size);
  return row >= 0 && row < N && column >= 0 && column < M ? [row, column] : null;
}

function choose(view, found, cell) {
  if (view.d.pick === "map") view.pick(found.i, 0, 0);
  else if (view.d.pick && cell) view.pick(found.i, ...cell);
}

function key(view, found, e) {
  const way = ways[e.key], { at, N, M } = found;
  if (isBrowsers(e)) return;
  if (presses(e)) choose(view, found, at);
  else if (way) point(view, found, at ? beside(at, way, [N, M]) : [0, 0]);
  else return;
  e.preventDefault();
}

function point(view, found, at) {
  if (String(found.at) === String(at)) return;
  found.at = at;
  draw(view, found);
  showReadout(view, at && found);
}

const nameOf = ({ d }, i) => (d.labels[i] === undefined ? `${i}` : named(i, d.labels[i]));

function showReadout(view, found) {
  const { d } = view;
  const pickCell = TOUCH ? "Tap a cell." : "Click a cell; with the keyboard: arrows and Enter.";
  const usual = d.pick === "cell" ? pickCell : d.pick ? `${TOUCH ? "Tap" : "Click"} a map, or choose its letter below.` : d.showWeights && !view.unscaled ? `${POINT} a cell to read its weight.` : "";
  if (!found) return void (view.read.textContent = usual);
  const [row, column] = found.at, w = found.map.rows[row][column];
  const weight = w === null ? ": masked" : d.showWeights && !view.unscaled ? `: ${printed(w)}` : "";
  view.read.textContent = `${found.map.title ? `${found.map.title}, ` : ""}${d.axes[0]} ${nameOf(view, row)}, ${d.axes[1]} ${nameOf(view, column)}${weight}`;
}

// ---- painting

function paint(view) {
  for (const found of view.figures) draw(view, found);
  const { d, scale } = view, ink = sheet(scale, 2 * 120, 2 * 12, 2);
  for (let x = 0; x < 240; x++) { ink.fillStyle = shade(view, d.maps[0].hue, d.below ? d.top * (x / 119.5 - 1) : x / 239); ink.fillRect(x, 0, 1, 24); }
}

// Square-root colour scale, as on the other pages; of effective weights, up to the largest size on either side of 0.
function shade(view, hue, weight) {
  const { d } = view, mode = view.dark ? "dark" : "light", stops = weight < 0 && d.below ? d.below[mode] : d.ramps[mode][hue];
  return `rgb(${colourAt(stops, Math.sqrt(clamp(d.below ? Math.abs(weight) / d.top : weight, 0, 1))).map(Math.round)})`;
}

function draw(view, found) {
  const { d, root } = view, { canvas, map, N, M, i } = found, width = found.box.clientWidth;
  if (!width) return;
  const [left, top] = d.perRow ? [2, 2] : [24, 18], size = Math.max(3, Math.min(42, (width - left - 2) / M)), ratio = ratioOf(view);
  found.geometry = { left, top, size };
  const ink = scaledSheet(canvas, left + size * M + 2, top + size * N + 2, ratio);
  const text = getComputedStyle(root).color;
  for (let row = 0; row < N; row++)
    for (let column = 0; column < M; column++) {
      const w = map.rows[row][column], gap = size > 8 ? 1 : 0;
      ink.fillStyle = w === null ? `rgba(${d.masked.join(",")})` : shade(view, map.hue, w);
      ink.fillRect(left + column * size, top + row * size, size - gap, size - gap);
    }
  ink.strokeStyle = text;
  ink.globalAlpha = 0.25;
  ink.lineWidth = 1;
  if (view.unscaled) for (let n = 0; n < N * M; n++) ink.strokeRect(left + (n % M) * size - 0.5, top + Math.floor(n / M) * size - 0.5, size, size);
  ink.strokeRect(left - 0.5, top - 0.5, size * M, size * N);
  if (!d.perRow) ticks(ink, found, text);
  ink.globalAlpha = 1;
  if (found.at) outline(ink, found, found.at, text, [3, 2]);
  if (d.chosen.length === 3 && d.chosen[0] === i) outline(ink, found, d.chosen.slice(1), text, []);
  if (d.right.length === 3 && d.right[0] === i) outline(ink, found, d.right.slice(1), pageColour("--right"), [], 3);
  found.box.classList.toggle("chosen", d.chosen.length === 1 && d.chosen[0] === i);
  found.box.classList.toggle("right", d.right.length === 1 && d.right[0] === i);
}

function ticks(ink, { N, M, geometry: { left, top, size } }, text) {
  const every = roundStep(Math.max(1, 16 / size));
  Object.assign(ink, { fillStyle: text, globalAlpha: 0.75, font: "11px sans-serif", textBaseline: "middle", textAlign: "right" });
  for (let row = 0; row < N; row += every) ink.fillText(row, left - 5, top + (row + 0.5) * size);
  ink.textAlign = "center";
  for (let column = 0; column < M; column += every) ink.fillText(column, left + (column + 0.5) * size, top - 8);
}

function outline(ink, { geometry: { left, top, size } }, [row, column], colour, dash, width = 2) {
  ink.setLineDash(dash);
  Object.assign(ink, { strokeStyle: colour, lineWidth: width });
  ink.strokeRect(left + column * size, top + row * size, size - 1, size - 1);
  ink.setLineDash([]);
}

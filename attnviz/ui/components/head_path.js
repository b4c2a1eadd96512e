// One query from score to weight, a bar per key. Hover is handled here; choosing another key is sent to the server.
import { begun, el, jsonOf, partsOf, pointOn, roundStep, slideHeight } from "./call.js";
import { painter, printed, ratioOf, scaledSheet, sharply } from "./packed_weights.js";
import { foldAll } from "./folded.js";
import { saveButtons } from "./save_buttons.js";
import { FAINT, fontOf, inks, labelsOf, name, ticks, upright, widest, word, writeTexts } from "./head_canvas.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".hv");
  const view = (root.view ??= create(root)), call = begun(root);
  view.send = setTriggerValue;
  foldAll(root);
  update(view, jsonOf(data));
  return call.end;
}

function create(root) {
  const view = { root, ...partsOf(root, ["from", "steps", "readout", "path", "sum"]) };
  view.paint = painter(root, () => paint(view));
  new ResizeObserver(() => requestAnimationFrame(view.paint)).observe(root);
  document.fonts.load(fontOf(view)).then(view.paint, () => {}); // repaint once the font has loaded
  view.path.onpointermove = (e) => showReadout(view, keyAt(view, e));
  view.path.onpointerleave = () => showReadout(view, null);
  view.path.onclick = (e) => { const k = keyAt(view, e); if (k !== null) view.send("cell", [view.d.query, k]); };
  return view;
}

function update(view, d) {
  view.d = d;
  writeTexts(view, d.texts);
  view.path.setAttribute("aria-label", d.alt);
  showReadout(view, null); // the bars are painted when they are in sight
  view.paint();
  saveButtons(view.root, () => ({ title: "", legend: d.legend, unsaved: ".readout, i[hidden]", stage: (ratio) => sharply(view, () => paintPath(view), ratio) }));
}

function paint(view) {
  if (!view.root.clientWidth) return;
  paintPath(view);
  showReadout(view, view.at); // its mark is elsewhere in another size
}

function paintPath(view) {
  const { d, path } = view, n = d.scores.length, full = path.clientWidth, ratio = ratioOf(view);
  const ink = path.firstElementChild.getContext("2d"), left = 34;
  ink.font = fontOf(view);
  const columns = ticks(n, full - left, d.key), names = labelsOf(d, full, columns), foot = widest(ink, columns, names);
  const besides = path.parentElement.offsetHeight - path.offsetHeight + foot, rows = [...d.stages.slice(1).map(() => d.scores), d.weights], slide = (slideHeight(view.root) - besides) / rows.length; // scores once more where some are masked
  const row = Math.max(64, Math.min(120, slide)), bars = row - 28;
  scaledSheet(path.firstElementChild, full, rows.length * row + foot, ratio);
  ink.font = fontOf(view);
  ink.textBaseline = "middle";
  const low = Math.min(0, ...d.scores), high = Math.max(0, ...d.scores), pad = 0.05 * (high - low || 1);
  const plot = (view.way = { left, width: full - left - 2, n }), { soft, strong } = inks(view.steps, view.from);
  rows.forEach((values, i) => {
    const [from, to] = values === d.scores ? [low - pad, high + pad] : [0, 1.05], top = i * row + row - bars;
    const y = (v) => top + bars * (1 - (v - from) / (to - from));
    ink.textAlign = "left";
    word(ink, d.stages[i], left, top - 10, strong);
    axis(ink, plot, y, from, to, soft);
    values.forEach((v, k) => bar(ink, d, plot, k, i, top, bars, y(0), y(v)));
  });
  for (const k of columns) upright(ink, names[k], left + ((k + 0.5) * plot.width) / n, rows.length * row + 5, "right", k === d.key ? strong : soft);
}

function axis(ink, { left, width }, y, from, to, colour) {
  const step = roundStep((to - from) / 4);
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

function keyAt(view, e) {
  const { left, width } = view.way, x = (pointOn(view.path, e)[0] - left) / width;
  return x >= 0 && x < 1 ? Math.floor(x * view.d.scores.length) : null; // perhaps not painted yet
}

function showReadout(view, at) {
  const { d, path, way, readout } = view, k = at ?? d.key, mark = path.lastElementChild;
  view.at = at;
  const weight = d.allowed[k] ? ["weight ", el("b", "", printed(d.weights[k]))] : ["masked, so it has no weight"];
  readout.replaceChildren("Key ", name(d, k), `: score ${printed(d.scores[k])}, `, ...weight);
  mark.hidden = at === null;
  if (at !== null) Object.assign(mark.style, { left: `${way.left + (k * way.width) / way.n}px`, width: `${Math.max(1, way.width / way.n)}px` });
}

// One pair of a query and a key on the plane; a slider shifts both positions, another the key's alone.
// data: JSON {frequencies, q, k, unrotated, root, pair, dimensions, positions, tokens, alone, last, colour, legend}; q and
// k: [first, second] dimension of each pair, before RoPE.
import { begun, clamp, jsonOf } from "./call.js";
import { saveButtons } from "./save_buttons.js";
import { add } from "./svg.js";
import { degrees, play, signed } from "./rope_playing.js";

const EDGE = 100, LEAST = 3, STILL = 3; // STILL: the first rows of numbers do not change while both positions shift

const rotated = ([x, y], angle) => [x * Math.cos(angle) - y * Math.sin(angle), x * Math.sin(angle) + y * Math.cos(angle)];

// Values at positions m and n: the rotated pair of each, and the dot products of the pair and of the head.
function look(data, m, n) {
  const products = data.frequencies.map((frequency, i) => {
    const [q, k] = [rotated(data.q[i], m * frequency), rotated(data.k[i], n * frequency)];
    return { q, k, product: q[0] * k[0] + q[1] * k[1] };
  });
  const score = (products.reduce((sum, { product }) => sum + product, 0) + data.unrotated) / Math.sqrt(data.root);
  return { m, n, ...products[data.pair], score };
}

const vector = (v) => `(${signed(v[0], 2)}, ${signed(v[1], 2)})`;

function rows(data, seen) {
  const [q, k] = data.tokens, pair = data.pair;
  return [
    [`score q·k/√${data.root}`, signed(seen.score, 6)],
    [`pair ${pair} adds to q·k`, signed(seen.product, 6)],
    ["distance m − n", signed(seen.m - seen.n, 0)],
    [`position m of q, “${q}”`, seen.m],
    [`position n of k, “${k}”`, seen.n],
    [`pair ${pair} of q, rotated`, vector(seen.q)],
    [`pair ${pair} of k, rotated`, vector(seen.k)],
  ];
}

function drawPlane(root, data) {
  const plane = root.querySelector(".rp-plane");
  plane.replaceChildren();
  const svg = add(plane, "svg", { viewBox: "-142 -124 284 248", "aria-hidden": "true" });
  const lengths = [data.q, data.k].map((pairs) => Math.hypot(...pairs[data.pair])), scale = EDGE / (Math.max(...lengths) || 1);
  add(svg, "path", { class: "face", d: "M-118 0H118M0 -106V118" });
  for (const length of lengths) add(svg, "circle", { class: "face", r: length * scale });
  add(svg, "text", { class: "axis", x: 140, y: 17, "text-anchor": "end" }, `dim ${data.dimensions[0]}`);
  add(svg, "text", { class: "axis", x: -9, y: -109, "text-anchor": "end" }, `dim ${data.dimensions[1]}`);
  add(svg, "path", { class: "between" });
  ["q", "k"].forEach((name, i) => {
    for (const state of ["before", "after"]) drawArrow(svg, `arrow ${name} ${state}`, Math.max(LEAST, lengths[i] * scale));
    add(svg, "text", { class: `name ${name}` }, name);
  });
  return { scale };
}

function drawArrow(svg, name, length) {
  const arrow = add(svg, "g", { class: name }), tip = Math.min(10, length / 2);
  add(arrow, "path", { d: `M0 0H${length}` });
  if (name.endsWith("after")) add(arrow, "path", { d: `M${length - tip} ${-tip * 0.55}L${length} 0L${length - tip} ${tip * 0.55}` });
}

function turnArrow(root, name, state, [x, y]) {
  root.querySelector(`.arrow.${name}.${state}`).setAttribute("transform", `rotate(${-degrees(Math.atan2(y, x))})`);
}

// Places the names beyond the tips, or beside them if the arrows nearly coincide.
function nameTips(root, scale, q, k) {
  for (const [name, [x, y], [a, b]] of [["q", q, k], ["k", k, q]]) {
    const length = Math.hypot(x, y) * scale, angle = Math.atan2(y, x), near = Math.hypot(x - a, y - b) * scale < 22;
    const offset = near ? (name === "q" ? 0.16 : -0.16) : 0, r = Math.min(Math.max(length, 8) + 13, 114);
    const text = root.querySelector(`.name.${name}`);
    text.setAttribute("x", r * Math.cos(angle + offset));
    text.setAttribute("y", -r * Math.sin(angle + offset));
  }
}

function shadeAngle(root, q, k) {
  const from = Math.atan2(k[1], k[0]), turn = (Math.atan2(q[1], q[0]) - from + 4 * Math.PI) % (2 * Math.PI);
  const [start, sweep] = turn > Math.PI ? [from + turn, 2 * Math.PI - turn] : [from, turn]; // the smaller of the two angles
  const point = (angle) => `${30 * Math.cos(angle)} ${-30 * Math.sin(angle)}`;
  root.querySelector(".between").setAttribute("d", `M0 0L${point(start)}A30 30 0 0 0 ${point(start + sweep)}Z`);
}

// Per-frame update: arrows move continuously, numbers are for integer positions.
function paint(root, data, state) {
  const [m, n] = data.positions, shift = Math.floor(state.shown);
  const drawn = look(data, m + state.shown, n + state.shown + state.alone);
  const first = look(data, m, n), now = look(data, m + shift, n + shift + state.alone);
  turnArrow(root, "q", "after", drawn.q);
  turnArrow(root, "k", "after", drawn.k);
  nameTips(root, state.scale, drawn.q, drawn.k);
  shadeAngle(root, drawn.q, drawn.k);
  const unshifted = rows(data, first).map(([, text]) => String(text)), here = rows(data, now);
  [...root.querySelectorAll("tbody tr")].forEach((row, i) => {
    row.children[1].textContent = unshifted[i];
    row.children[2].textContent = here[i][1];
  });
  showSlider(root, ".both", shift, `both shifted by ${shift}`);
  showSlider(root, ".alone", state.alone, `k shifted by ${state.alone}`);
  if (!state.playing) root.querySelector(".live").textContent = here.map(([what, text]) => `${what}: ${text}`).join("; ");
}

function showSlider(root, name, value, text) {
  const slider = root.querySelector(name);
  slider.value = value;
  slider.setAttribute("aria-valuetext", text);
  slider.parentElement.querySelector("output").textContent = signed(value, 0);
}

function build(root, data, state) {
  root.style.setProperty("--hue", data.colour);
  Object.assign(state, drawPlane(root, data));
  turnArrow(root, "q", "before", data.q[data.pair]);
  turnArrow(root, "k", "before", data.k[data.pair]);
  const both = root.querySelector(".both"), alone = root.querySelector(".alone"), body = root.querySelector("tbody");
  both.max = data.last;
  [alone.min, alone.max] = data.alone;
  body.replaceChildren();
  rows(data, look(data, ...data.positions)).forEach(([what], i) => {
    const row = add(body, "tr", i < STILL ? { class: "still" } : {});
    add(row, "th", { scope: "row" }, what);
    add(row, "td");
    add(row, "td");
  });
  paint(root, data, state);
}

export default function ({ data: bytes, parentElement }) {
  const root = parentElement.querySelector(".rp"), data = jsonOf(bytes);
  const state = (root.state ??= { position: 0, shown: 0, alone: 0 }), call = begun(root);
  state.alone = clamp(state.alone, ...data.alone);
  const on = (name, event, act) => root.querySelector(name).addEventListener(event, act, { signal: call.signal });
  const go = () => play(root, data.last, state, call.signal, () => paint(root, data, state));
  on(".play", "click", () => { state.playing = !state.playing; go(); });
  on(".both", "input", (e) => { state.playing = false; state.shown = Number(e.target.value); go(); });
  on(".alone", "input", (e) => { state.alone = Number(e.target.value); paint(root, data, state); });
  build(root, data, state);
  saveButtons(root, () => ({ legend: data.legend, unsaved: ".rp > .bar, .live" }));
  if (state.playing) go();
  return call.end;
}

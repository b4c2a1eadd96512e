// The state of a linear head, written token by token: S ← α S, then S ← S + k ⊗ w. Keys, writes and decays are sent once; the states
// are added up here, so that a slider and playing ask nothing of the server.
// data: header {labels, title, note, alt, t, D, V, channels, scale, ramps, below, legend}, then k (T, D), writes (T, V) and decay (T, channels) as float32.
import { begun, el, isCalm, pointOn, slideHeight } from "./call.js";
import { colourAt, fingers, hovering, isDark, painter, parts, printed, rampOf, ratioOf, scaledSheet, sharply, short } from "./packed_weights.js";
import { play } from "./rope_playing.js";
import { saveButtons } from "./save_buttons.js";

const LARGEST = 250, SMALLEST = 120, SHADES = 64; // pixels of a picture's side; colours of each sign

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".sp"), view = (root.view ??= create(root)), call = begun(root);
  const state = (root.state ??= { playing: false }), on = (name, event, act) => root.querySelector(name).addEventListener(event, act, { signal: call.signal });
  if (view.bytes !== data) read(view, state, data);
  view.dark = isDark(root);
  const go = () => play(root, view.d.labels.length - 1, state, call.signal, () => show(view, state));
  on(".play", "click", () => { state.playing = !state.playing; if (state.playing && state.shown === view.d.labels.length - 1) state.position = 0; go(); });
  on("input", "input", (e) => { state.playing = false; state.shown = +e.target.value; go(); });
  view.paint = () => show(view, state);
  go();
  saveButtons(root, () => ({ title: "", legend: view.d.legend, unsaved: ".sp > .bar, .hint, .live", stage: (ratio) => sharply(view, view.paint, ratio) }));
  return call.end;
}

function create(root) {
  const view = { root, paint: () => {} }, repaint = painter(root, () => view.paint());
  new ResizeObserver(() => requestAnimationFrame(repaint)).observe(root);
  root.fill = () => view.paint();
  view.pictures = ["state", "added", "removed"].map((name) => {
    const section = root.querySelector(`.${name}`), picture = { name, section, canvas: section.querySelector("canvas"), read: section.querySelector(".read"), note: section.querySelector(".size") };
    picture.canvas.onpointermove = hovering((e) => point(view, picture, e));
    picture.canvas.onpointerleave = hovering(() => { view.cell = null; readings(view); });
    fingers(picture.canvas, (e) => point(view, picture, e));
    return picture;
  });
  return view;
}

function read(view, state, bytes) {
  const [d, buffer] = parts(bytes), T = d.labels.length, of = (from, n) => new Float32Array(buffer, 4 * from, n);
  view.bytes = bytes;
  view.d = { ...d, k: of(0, T * d.D), writes: of(T * d.D, T * d.V), decay: of(T * (d.D + d.V), T * d.channels) };
  view.reached = { t: -1, S: new Float64Array(d.D * d.V) };
  view.cell = null;
  state.shown = state.position = Math.min(d.t, T - 1);
  Object.assign(view.root.querySelector("input"), { max: T - 1 });
  view.root.querySelector("h2").textContent = d.title;
  view.root.querySelector(".note").textContent = d.note;
  for (const { canvas } of view.pictures) canvas.setAttribute("aria-label", d.alt);
}

// The state before and after token t; a slider that goes back begins again.
function statesAt(view, t) {
  const { d } = view, { D, V, k, writes, decay, channels } = d;
  if (view.reached.t >= t) view.reached = { t: -1, S: new Float64Array(D * V) };
  const S = view.reached.S, removed = new Float64Array(D * V), added = new Float64Array(D * V);
  for (let i = view.reached.t + 1; i <= t; i++)
    for (let a = 0; a < D; a++) {
      const kept = decay[i * channels + (channels > 1 ? a : 0)];
      for (let b = 0, at = a * V; b < V; b++, at++) {
        const gain = k[i * D + a] * writes[i * V + b];
        if (i === t) { removed[at] = (1 - kept) * S[at]; added[at] = gain; }
        S[at] = kept * S[at] + gain;
      }
    }
  view.reached.t = t;
  return { state: S, added, removed };
}

const norm = (values) => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));

function show(view, state) {
  const { d, root } = view, t = Math.floor(state.shown);
  if (!root.clientWidth) return;
  if (view.shown !== t || view.of !== view.bytes) Object.assign(view, { numbers: copied(statesAt(view, t)), shown: t, of: view.bytes });
  const { pictures, numbers } = view;
  for (const picture of pictures) {
    paintOne(view, picture, numbers[picture.name]);
    picture.note.textContent = `Frobenius norm ${printed(norm(numbers[picture.name]))}`;
  }
  readings(view);
  bar(view);
  const slider = root.querySelector("input"), said = `After token ${t}, “${short(d.labels[t])}”`;
  slider.value = t;
  slider.setAttribute("aria-valuetext", said);
  root.querySelector("output").textContent = `${t} ${short(d.labels[t])}`;
  root.querySelector(".finding").textContent = `${said}: the token added a norm of ${printed(norm(numbers.added))}, decay removed ${printed(norm(numbers.removed))}; the state’s norm is ${printed(norm(numbers.state))}.`;
  if (!state.playing || isCalm()) root.querySelector(".live").textContent = said;
}

const copied = ({ state, added, removed }) => ({ state: state.slice(), added, removed });

function paintOne(view, { canvas, section }, values) {
  const { d, ratio, root } = view, full = section.clientWidth, slide = slideHeight(root), wide = Math.min(full, slide < Infinity ? Math.max(slide - 200, SMALLEST) : LARGEST);
  const cell = wide / Math.max(d.D, d.V), ink = scaledSheet(canvas, cell * d.V, cell * d.D, ratio ?? ratioOf(view)), shades = sizeColours(view);
  for (let a = 0; a < d.D; a++)
    for (let b = 0; b < d.V; b++) {
      ink.fillStyle = shades(values[a * d.V + b]);
      ink.fillRect(b * cell, a * cell, cell + 0.5, cell + 0.5);
    }
}

// Colours by the square root of a number's size.
function sizeColours({ d, dark }) {
  const mode = dark ? "dark" : "light", of = (stops) => Array.from({ length: SHADES + 1 }, (_, i) => `rgb(${colourAt(stops, i / SHADES).map(Math.round)})`);
  const above = of(d.ramps[mode]), below = of(d.below[mode]);
  return (x) => (x < 0 ? below : above)[Math.round(SHADES * Math.sqrt(Math.min(1, Math.abs(x) / d.scale)))];
}

function bar({ d, dark, root }) {
  const mode = dark ? "dark" : "light", line = root.querySelector(".scale"), number = (x) => String(+x.toPrecision(2)).replace("-", "−");
  line.replaceChildren(el("span", "", number(-d.scale)), Object.assign(el("i", ""), { style: `background: ${rampOf([...[...d.below[mode]].reverse(), ...d.ramps[mode]])}` }), el("span", "", `${number(d.scale)} (square-root scale, the same in all three)`));
}

function point(view, { canvas }, e) {
  const { D, V } = view.d, [x, y] = pointOn(canvas, e), cell = canvas.clientWidth / V;
  view.cell = x >= 0 && y >= 0 && x < V * cell && y < D * cell ? [Math.floor(y / cell), Math.floor(x / cell)] : null;
  readings(view);
}

function readings(view) {
  const { d, cell, numbers, pictures } = view;
  for (const { name, read } of pictures)
    read.textContent = cell ? `row ${cell[0]}, column ${cell[1]}: ${printed(numbers[name][cell[0] * d.V + cell[1]])}` : `${d.D} × ${d.V}`;
}

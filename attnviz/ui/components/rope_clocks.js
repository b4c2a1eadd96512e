// Unit circles: one clock per pair, each token a dot at its angle, a hand at the selected position.
// data: JSON {label, frequencies, labels, last, query, pair, colour, equations, legend}; sends the chosen `pair`.
import { begun, jsonOf } from "./call.js";
import { foldAll } from "./folded.js";
import { saveButtons } from "./save_buttons.js";
import { add } from "./svg.js";
import { degrees, number, play } from "./rope_playing.js";

const FEW = 12, SHADES = 6, RADIUS = 46;

// Dots of equal shade are one path of zero-length strokes, which is fast for a long text.
function drawDots(svg, data, frequency) {
  const n = data.labels.length, shades = Math.min(SHADES, n);
  for (let s = 0; s < shades; s++) {
    let d = "";
    for (let m = Math.ceil(s * n / shades); m < Math.ceil((s + 1) * n / shades); m++) {
      const angle = m * frequency;
      d += `M${(RADIUS * Math.cos(angle)).toFixed(1)} ${(-RADIUS * Math.sin(angle)).toFixed(1)}h.01`;
    }
    add(svg, "path", { class: "dots", d, opacity: 0.25 + 0.75 * (s + 1) / shades });
  }
}

function drawClock(list, data, pair) {
  const clock = add(list, "button", { type: "button", role: "radio", "data-pair": pair });
  const svg = add(clock, "svg", { viewBox: "-56 -56 112 112", "aria-hidden": "true" });
  add(svg, "circle", { class: "face", r: RADIUS });
  add(svg, "path", { class: "face", d: `M${-RADIUS} 0H${RADIUS}M0 ${-RADIUS}V${RADIUS}` });
  drawDots(svg, data, data.frequencies[pair]);
  const hand = add(svg, "g", { class: "hand" });
  add(hand, "line", { x2: RADIUS });
  add(hand, "circle", { cx: RADIUS, r: 6 });
  add(clock, "b", {}, `pair ${pair}`);
  add(clock, "span", {}, `${number(degrees(data.frequencies[pair]))}°`);
}

// The pairs shown: all, or a few spread evenly from the fastest to the slowest, including the selected one.
function shownPairs(data, state) {
  const n = data.frequencies.length;
  if (state.all || n <= FEW) return [...Array(n).keys()];
  const few = [...Array(FEW).keys()].map((i) => Math.round(i * (n - 1) / (FEW - 1)));
  const away = few.map((pair) => Math.abs(pair - state.pair));
  few[away.indexOf(Math.min(...away))] = state.pair;
  return few;
}

const at = (data, m) => (m < data.labels.length ? `“${data.labels[m]}”` : "beyond this text");

const turns = (n) => `${number(n, 2)} ${n < 0.995 ? "of a turn" : n < 1.05 ? "turn" : "turns"}`;

function sentence(data, state) {
  const m = Math.floor(state.shown), frequency = data.frequencies[state.pair], turn = m * frequency;
  return `Position ${m}, ${at(data, m)}: pair ${state.pair} is rotated by ${number(degrees(turn), 4)}°, ` +
    `${turns(turn / (2 * Math.PI))}; one turn takes ${number(2 * Math.PI / frequency)} tokens.`;
}

// Per-frame update: only the hands and the sentence.
function paint(root, data, state) {
  for (const clock of root.querySelectorAll("[data-pair]")) {
    const angle = degrees(state.shown * data.frequencies[clock.dataset.pair]) % 360;
    clock.querySelector(".hand").setAttribute("transform", `rotate(${-angle})`);
  }
  const m = Math.floor(state.shown), slider = root.querySelector("input");
  slider.value = m;
  slider.setAttribute("aria-valuetext", `${m}, ${at(data, m)}`);
  root.querySelector("output").textContent = `${m} ${m < data.labels.length ? data.labels[m] : "(beyond this text)"}`;
  root.querySelector(".rc-angle").textContent = sentence(data, state);
  if (!state.playing) root.querySelector(".live").textContent = sentence(data, state);
}

function select(root, data, state, pair) {
  state.pair = pair;
  root.querySelector(".rc-equations").textContent = data.equations[pair];
  for (const clock of root.querySelectorAll("[data-pair]")) {
    const chosen = Number(clock.dataset.pair) === pair;
    clock.setAttribute("aria-checked", chosen);
    clock.tabIndex = chosen ? 0 : -1;
  }
  paint(root, data, state);
}

function build(root, data, state) {
  root.style.setProperty("--hue", data.colour);
  const list = root.querySelector(".rc-clocks"), more = root.querySelector(".rc-all"), n = data.frequencies.length;
  list.replaceChildren();
  list.setAttribute("aria-label", data.label);
  for (const pair of shownPairs(data, state)) drawClock(list, data, pair);
  more.hidden = n <= FEW;
  more.textContent = state.all ? `Show ${FEW} of ${n} pairs` : `Show all ${n} pairs`;
  root.querySelector("input").max = data.last;
  select(root, data, state, state.pair);
}

export default function ({ data: bytes, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".rc"), data = jsonOf(bytes);
  const start = Math.min(data.query, data.last), state = root.state ?? { position: start, shown: start };
  state.position = state.shown = Math.min(state.shown, data.last);
  state.pair = data.pair;
  root.state = state;
  const call = begun(root), on = (name, event, act) => root.querySelector(name).addEventListener(event, act, { signal: call.signal });
  const go = () => play(root, data.last, state, call.signal, () => paint(root, data, state));
  const choose = (clock) => { select(root, data, state, Number(clock.dataset.pair)); setTriggerValue("pair", state.pair); };
  on(".play", "click", () => { state.playing = !state.playing; go(); });
  on("input", "input", (e) => { state.playing = false; state.shown = Number(e.target.value); go(); });
  on(".rc-all", "click", () => { state.all = !state.all; build(root, data, state); });
  on(".rc-clocks", "click", (e) => { const clock = e.target.closest("[data-pair]"); if (clock) choose(clock); });
  on(".rc-clocks", "keydown", (e) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key], clocks = [...root.querySelectorAll("[data-pair]")];
    const next = clocks[clocks.findIndex((c) => c.tabIndex === 0) + step];
    if (step) e.preventDefault();
    if (next) { choose(next); next.focus(); }
  });
  const focused = root.getRootNode().activeElement?.dataset?.pair;
  build(root, data, state);
  foldAll(root);
  if (focused) root.querySelector(`[data-pair="${state.pair}"]`).focus();
  saveButtons(root, () => ({ legend: data.legend, unsaved: ".rc > .bar, .rc-all, .live" }));
  if (state.playing) go();
  return call.end;
}

// Unit circles: one clock per pair, each token a dot at its angle, a hand at the position of the slider.
// data: bytes, [u32 length][JSON {label, frequencies, labels, last, query, colour, equations}][float32 q (tokens, pairs, 2)]
const SVG = "http://www.w3.org/2000/svg", FEW = 12, SHADES = 6, RADIUS = 46;
const number = (x, digits = 3) => x.toLocaleString("en", { maximumSignificantDigits: digits });
const signed = (x) => x.toFixed(2).replace("-", "−");

function unpack(bytes) {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true), start = 4 + size;
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  return { ...header, q: new Float32Array(bytes.slice(start).buffer) };
}

function add(parent, tag, attributes = {}, text = "") {
  const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== "") node.textContent = text;
  parent.appendChild(node);
  return node;
}

// Dots of equal shade are one path of strokes without length, so that a long text stays cheap.
function drawDots(svg, data, frequency) {
  const n = data.labels.length, shades = Math.min(SHADES, n);
  for (let s = 0; s < shades; s++) {
    let d = "";
    for (let m = Math.ceil(s * n / shades); m < Math.ceil((s + 1) * n / shades); m++) {
      const angle = m * frequency;
      d += `M${(RADIUS * Math.cos(angle)).toFixed(1)} ${(-RADIUS * Math.sin(angle)).toFixed(1)}h.01`;
    }
    add(svg, "svg:path", { class: "dots", d, opacity: 0.25 + 0.75 * (s + 1) / shades });
  }
}

function drawFace(parent) {
  const svg = add(parent, "svg:svg", { viewBox: "-56 -56 112 112", "aria-hidden": "true" });
  add(svg, "svg:circle", { class: "face", r: RADIUS });
  add(svg, "svg:path", { class: "face", d: `M${-RADIUS} 0H${RADIUS}M0 ${-RADIUS}V${RADIUS}` });
  return svg;
}

function drawClock(list, data, pair) {
  const clock = add(list, "button", { type: "button", role: "radio", "data-pair": pair });
  const svg = drawFace(clock);
  drawDots(svg, data, data.frequencies[pair]);
  const hand = add(svg, "svg:g", { class: "hand" });
  add(hand, "svg:line", { x2: RADIUS });
  add(hand, "svg:circle", { cx: RADIUS, r: 6 });
  const degrees = number(data.frequencies[pair] * 180 / Math.PI);
  add(clock, "b", {}, `pair ${pair}`);
  add(clock, "span", {}, `${degrees}°/token`);
}

// The pairs on show: all of them, or a few spread evenly from the fastest to the slowest.
function shownPairs(data, all) {
  const n = data.frequencies.length;
  if (all || n <= FEW) return [...Array(n).keys()];
  return [...Array(FEW).keys()].map((i) => Math.round(i * (n - 1) / (FEW - 1)));
}

const at = (data, m) => (m < data.labels.length ? `“${data.labels[m]}”` : "beyond this text");

function vectorOf(data, state) {
  const i = 2 * (state.token * data.frequencies.length + state.pair), [a, b] = [data.q[i], data.q[i + 1]];
  const turn = state.shown * data.frequencies[state.pair];
  const rotated = [a * Math.cos(turn) - b * Math.sin(turn), b * Math.cos(turn) + a * Math.sin(turn)];
  return { a, b, rotated, turn, length: Math.hypot(a, b), from: Math.atan2(b, a) };
}

function sentences(data, state) {
  const m = Math.floor(state.shown), v = vectorOf(data, { ...state, shown: m });
  const frequency = data.frequencies[state.pair];
  return [
    `Position ${m}, ${at(data, m)}: pair ${state.pair} is rotated by ${number(v.turn * 180 / Math.PI, 4)}°, ` +
    `${number(v.turn / (2 * Math.PI), 2)} of a turn; one turn takes ${number(2 * Math.PI / frequency)} tokens.`,
    `q of ${at(data, state.token)} in this pair: (${signed(v.a)}, ${signed(v.b)}) before, ` +
    `(${signed(v.rotated[0])}, ${signed(v.rotated[1])}) rotated to position ${m}; its length is ${v.length.toFixed(2)}.`,
  ];
}

function drawDial(root) {
  const dial = root.querySelector(".rc-dial");
  dial.replaceChildren();
  const svg = drawFace(dial);
  add(svg, "svg:path", { class: "rc-arc" });
  for (const name of ["rc-before", "rc-after"]) {
    const arrow = add(svg, "svg:g", { class: name });
    add(arrow, "svg:path", { d: `M0 0H${RADIUS}` });
    add(arrow, "svg:path", { class: "tip", d: `M${RADIUS - 9} -5l9 5l-9 5` });
  }
}

// The arrow before and after, and the arc between them, full circles left out.
function turnDial(root, v) {
  const r = RADIUS / 2, rest = v.turn % (2 * Math.PI), to = v.from + rest;
  const point = (angle) => `${r * Math.cos(angle)} ${-r * Math.sin(angle)}`;
  root.querySelector(".rc-before").setAttribute("transform", `rotate(${-v.from * 180 / Math.PI})`);
  root.querySelector(".rc-after").setAttribute("transform", `rotate(${-to * 180 / Math.PI})`);
  root.querySelector(".rc-arc").setAttribute("d", `M${point(v.from)}A${r} ${r} 0 ${+(rest > Math.PI)} 0 ${point(to)}`);
}

// What moves at every frame, and nothing else: the hands, the rotated vector, the two sentences.
function paint(root, data, state) {
  for (const clock of root.querySelectorAll("[data-pair]")) {
    const degrees = (state.shown * data.frequencies[clock.dataset.pair] * 180 / Math.PI) % 360;
    clock.querySelector(".hand").setAttribute("transform", `rotate(${-degrees})`);
  }
  turnDial(root, vectorOf(data, state));
  const m = Math.floor(state.shown), slider = root.querySelector("input");
  slider.value = m;
  slider.setAttribute("aria-valuetext", `${m}, ${at(data, m)}`);
  root.querySelector("output").textContent = `${m} ${m < data.labels.length ? data.labels[m] : "(beyond this text)"}`;
  const lines = sentences(data, state);
  [".rc-angle", ".rc-vector"].forEach((name, i) => { root.querySelector(name).textContent = lines[i]; });
  if (!state.playing) root.querySelector(".rc-live").textContent = lines.join(" ");
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
  const pairs = shownPairs(data, state.all), list = root.querySelector(".rc-clocks");
  list.replaceChildren();
  drawDial(root);
  list.setAttribute("aria-label", data.label);
  for (const pair of pairs) drawClock(list, data, pair);
  const more = root.querySelector(".rc-all"), n = data.frequencies.length;
  more.hidden = n <= FEW;
  more.textContent = state.all ? `Show ${FEW} of ${n} pairs` : `Show all ${n} pairs`;
  const tokens = root.querySelector(".rc-token");
  tokens.replaceChildren(...data.labels.map((label, m) => new Option(`${m} ${label}`, m)));
  tokens.value = state.token;
  root.querySelector("input").max = data.last;
  select(root, data, state, pairs.includes(state.pair) ? state.pair : pairs[Math.min(2, pairs.length - 1)]);
}

function play(root, data, state, call) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;  // whole steps, one a second, nothing glides
  const button = root.querySelector(".rc-play");
  button.textContent = state.playing ? "❚❚ Pause" : "▶ Play";
  let last = performance.now();
  const frame = (now) => {
    if (!state.playing || call.aborted) return; // a later call goes on with what it was given
    requestAnimationFrame(frame);
    if (now - last < 1000 / 30 - 4) return;  // 30 frames a second are enough for a hand
    state.position += (now - last) / 1000 * (calm ? 1 : Number(root.querySelector(".rc-speed").value));
    last = now;
    if (state.position >= data.last + 1) state.position = 0;
    const shown = calm ? Math.floor(state.position) : Math.min(state.position, data.last);
    if (shown === state.shown) return;
    state.shown = shown;
    paint(root, data, state);
  };
  if (state.playing) requestAnimationFrame(frame);
  else { state.position = state.shown = Math.floor(state.shown); paint(root, data, state); }
}

export default function ({ data: bytes, parentElement }) {
  const root = parentElement.querySelector(".rc"), data = unpack(bytes);
  const state = root.state ?? { position: 0, shown: 0, pair: null, token: data.query, asked: data.query };
  if (!root.state) state.position = state.shown = Math.min(data.query, data.last);
  if (state.asked !== data.query) state.token = state.asked = data.query;
  state.token = Math.min(state.token, data.labels.length - 1);
  state.position = state.shown = Math.min(state.shown, data.last);
  root.state = state;
  const call = begun(root), on = (name, event, act) => root.querySelector(name).addEventListener(event, act, { signal: call.signal });
  const go = () => play(root, data, state, call.signal);
  on(".rc-play", "click", () => { state.playing = !state.playing; go(); });
  on("input", "input", (e) => { state.playing = false; state.shown = Number(e.target.value); go(); });
  on(".rc-token", "change", (e) => { state.token = Number(e.target.value); paint(root, data, state); });
  on(".rc-all", "click", () => { state.all = !state.all; build(root, data, state); });
  on(".rc-clocks", "click", (e) => { const c = e.target.closest("[data-pair]"); if (c) select(root, data, state, Number(c.dataset.pair)); });
  on(".rc-clocks", "keydown", (e) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key], clocks = [...root.querySelectorAll("[data-pair]")];
    const next = clocks[clocks.findIndex((c) => c.tabIndex === 0) + step];
    if (step) e.preventDefault();
    if (next) { select(root, data, state, Number(next.dataset.pair)); next.focus(); }
  });
  build(root, data, state);
  saveButtons(root, () => ({ legend: data.legend, unsaved: ".rc > .rc-bar, .rc-all, .rc-live, .rc-says .rc-bar" }));
  if (state.playing) go();
  return call.end;
}

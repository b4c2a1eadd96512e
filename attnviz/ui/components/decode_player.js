// Player of a generated text: playing and stepping run in the browser; another candidate is requested from the server.
import { begun, clamp, el, pageColour, partsOf, slideHeight } from "./call.js";
import { colours, isDark, named, parts, printed, ratioOf, scale, scaledSheet, sharply, short, weightText } from "./packed_weights.js";
import { saveButtons } from "./save_buttons.js";
import { isOutdated } from "../../server/page.js";

const MAX_COLUMN_WIDTH = 9, BAND = 4, GAP = 6; // pixels: maximal width of a token in the caches; height of a cached tensor of one head; between layers
const STATE_HEIGHT = 16; // pixels, at least
const CACHES_SHARE = 0.25, CACHES_HEIGHT = 560, MIN_LAYER_HEIGHT = 8; // of the height while presenting, and pixels otherwise, at most, for all layers; pixels of one, at least
const PREFETCH = 16, FRAME = 24; // tokens: remaining steps below which more are requested; room of the drawings, doubled when it is full
const ROWS = 25, MAX_MAP_WIDTH = 188; // of each map: the newest queries; its maximal width with the gap, in pixels
const GREY = pageColour("--neutral");
const SEND_AFTER = 700, SEND_AFTER_PLAYING = 1500, RETRY_AFTER = 5000; // milliseconds: debounce of the position, and while playing; wait before `more` is repeated
const USED = ["pointerdown", "pointerup", "click", "keydown", "input", "popstate"], SETTLES_AFTER = 1000; // events of a change of the text or a setting; ms until its run has begun

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".dp");
  const view = (root.view ??= create(root)), call = begun(root);
  view.send = setTriggerValue;
  for (const each of USED) window.addEventListener(each, (e) => usedElsewhere(view, e), { signal: call.signal, capture: true, passive: true });
  if (view.bytes !== data) update(view, data);
  else show(view); // only the theme or the size changed
  return call.end;
}

function create(root) {
  const names = ["text", "at", "next", "candidates", "how", "held", "caches", "sum", "legend", "maps", "maps-title", "rows"];
  const view = { root, ...partsOf(root, names), timer: 0, later: 0, asked: 0, since: Date.now(), used: 0 };
  view.rate = root.querySelector("select");
  root.querySelector(".tools").onclick = (e) => e.target.dataset.go && press(view, e.target.dataset.go);
  root.onkeydown = (e) => {
    const go = { ArrowLeft: "back", ArrowRight: "next", Home: "start", End: "end" }[e.key];
    if (go && !["SELECT", "INPUT"].includes(e.target.tagName)) { e.preventDefault(); press(view, go); }
  };
  view.some = root.querySelector("input");
  view.rate.onchange = () => { if (view.timer) { stop(view); play(view, view.until); } };
  new ResizeObserver(() => requestAnimationFrame(() => view.d && view.room !== roomOf(view) && paint(view))).observe(root);
  return view;
}

// ---- the payload

function update(view, bytes) {
  const old = view.d, [d, body] = parts(bytes);
  view.bytes = bytes;
  if (d.first > (old?.steps.length ?? 0)) return view.send("more", [old ? view.n : d.at, 0, 0, d.placed]); // steps omitted by the server are missing here: request all of them
  d.T = d.prompt.length;
  d.H = d.marks.length;
  d.cells = new Uint16Array(body);
  if (d.first) {
    const had = old.from[d.first] ?? old.cells.length, cells = new Uint16Array(had + d.cells.length);
    cells.set(old.cells.subarray(0, had));
    cells.set(d.cells, had);
    Object.assign(d, { cells, steps: [...old.steps.slice(0, d.first), ...d.steps] });
  }
  view.d = d;
  let from = d.H * d.before * d.T;
  d.from = d.steps.map((_, i) => { const at = from; from += d.H * (d.T + i); return at; });
  const more = d.answer > view.since; // an answer to `more`: the player keeps its position
  if (!more || d.answer >= view.asked) view.asked = 0; // otherwise a later request is still open
  if (!more) { stop(view); clearTimeout(view.later); } // the server has set the position
  view.n = Math.min(more ? view.n : d.at, d.steps.length);
  view.frame = old?.prompt.join() === d.prompt.join() ? view.frame : FRAME;
  const outside = d.windows.some(Boolean) ? " Grey: outside the newest query's window." : "";
  view.legend.textContent = `Left of the line: the prompt. Right: generated tokens, one step each.${outside} ${d.legend}`;
  show(view);
  if (d.stale || view.chose) sendPosition(view, view.timer ? SEND_AFTER_PLAYING : SEND_AFTER);
  if (view.timer) view.until = Math.min(view.until, lastOf(d));
  if (more && view.going) to(view, view.n + 1);
  view.going = view.chose = false;
  saveButtons(view.root, () => ({ title: titleOf(view), legend: hues(d), unsaved: ".tools, .how", stage: (ratio) => sharply(view, () => paint(view), ratio) }));
}

// The number of written tokens after which no more can be: the room for them, or those up to the one that ends the text.
const lastOf = (d) => (d.ended ? d.steps.length : d.most);

const titleOf = ({ n, d }) => `${n ? `Step ${n} of decoding` : "Before the first step of decoding"}, after a prompt of ${d.T} tokens`;

const hues = (d) => [...new Map(d.kvHeadOf.map((k, h) => [k, [d.marks[h], `KV ${k}`]])).values()];

// ---- stepping

function press(view, go) {
  if (go === "play" && !view.timer) return play(view);
  stop(view);
  if (go === "run") return play(view, view.n + (view.some.value = Math.max(1, Math.trunc(view.some.value) || 1)));
  if (go === "next" && view.n === view.d.steps.length) { // once the server has sent it
    view.going = true;
    return more(view);
  }
  if (go !== "play") to(view, { start: 0, back: view.n - 1, next: view.n + 1, end: view.d.steps.length }[go]);
}

// until: number of written tokens at which it stops; by default the maximum.
function play(view, until = Infinity) {
  view.until = Math.min(until, lastOf(view.d));
  view.root.querySelector("[data-go=play]").textContent = "❚❚ pause";
  view.timer = setInterval(() => {
    if (!view.root.isConnected) return stop(view); // the user has left the page
    if (view.n < Math.min(view.until, view.d.steps.length)) to(view, view.n + 1);
    else prefetch(view);
    if (view.n >= view.until) stop(view);
  }, 1000 / view.rate.value);
  prefetch(view);
}

function stop(view) {
  if (view.timer) sendPosition(view, SEND_AFTER);
  clearInterval(view.timer);
  view.timer = 0;
  view.root.querySelector("[data-go=play]").textContent = "▶ play";
}

function to(view, n) {
  view.n = clamp(n, 0, view.d.steps.length);
  show(view);
  sendPosition(view, view.timer ? SEND_AFTER_PLAYING : SEND_AFTER);
  if (view.timer) prefetch(view);
  else if (view.n === view.d.steps.length) more(view);
}

// Debounced: the URL and the tab below follow shortly after the last step.
function sendPosition(view, after) {
  clearTimeout(view.later);
  view.later = setTimeout(() => view.root.isConnected && ask(view, "at", [view.n, view.d.placed]), after);
}

// Requests more tokens before the known steps run out.
function prefetch(view) {
  const known = view.d.steps.length;
  if (known < view.until && view.n > known - PREFETCH) more(view);
}

function more(view) {
  if (Date.now() - view.asked < RETRY_AFTER || view.d.steps.length >= lastOf(view.d)) return;
  view.asked = Date.now();
  ask(view, "more", [view.n, view.asked, view.d.steps.length, view.d.placed]);
}

// What is shown stays right whatever the server answers, so server/dimming.css does not dim it meanwhile: until a candidate
// is chosen, or something outside the player is used, which may change the text or a setting.
function ask(view, what, value) {
  if (!isOutdated(view.root) && Date.now() - view.used > SETTLES_AFTER) stays(view, true);
  view.send(what, value);
}

function usedElsewhere(view, event) {
  if (event.composedPath().includes(hostOf(view))) return;
  view.used = Date.now();
  stays(view, false);
}

const hostOf = (view) => view.root.getRootNode().host;
const stays = (view, on) => hostOf(view).toggleAttribute("data-stays", on);

// Step immediately if the choice is the next token anyway; otherwise append it while the server computes what follows.
function choose(view, now, id) {
  stop(view);
  if (id === view.d.steps[now].id && now + 1 < view.d.steps.length) return to(view, now + 1);
  clearTimeout(view.later);
  view.since = Date.now(); // ignore answers to earlier requests
  view.asked = 0;
  stays(view, false);
  writeText(view, now);
  view.text.querySelector(".last")?.classList.remove("last");
  view.text.append(newToken(asText(view.d.steps[now].names[id])));
  view.text.lastChild.classList.add("last");
  view.chose = true;
  view.send("choose", [now, id]);
}

// ---- rendering

// The step that is shown: the next one or, where no further one is known, the last one written.
const shownStep = (view) => Math.min(view.n, view.d.steps.length - 1);

function show(view) {
  const { d, n } = view, now = shownStep(view), step = d.steps[now], on = (go, yes) => (view.root.querySelector(`[data-go=${go}]`).disabled = !yes);
  writeText(view);
  for (const go of ["start", "back"]) on(go, n > 0);
  on("end", n < d.steps.length);
  for (const go of ["next", "play", "run"]) on(go, n < lastOf(d));
  view.at.replaceChildren(progress(view, now), el("b", "", limits(view)));
  view.next.textContent = `${n > now ? "Written last" : "Next"}: ${step.title}`;
  candidates(view, step, now);
  view.how.textContent = `${step.passing} Click a candidate to write it instead. In the text, a stronger background means a token less probable in the model. ${d.explained}`;
  view.held.textContent = heldTitle(d, d.T + now);
  view.sum.textContent = step.counted;
  while (view.frame <= now) view.frame *= 2;
  makeMaps(view);
  paint(view);
  const rows = Math.min(ROWS, d.before + now + 1);
  view.rows.textContent = rows === 1 ? "The row is the newest query. Columns: keys." : `Rows: the last ${rows} queries, the newest outlined. Columns: keys.`;
}

// What the drawings' sizes depend on; a text that takes another line changes only the height.
const roomOf = ({ root }) => `${root.clientWidth} ${slideHeight(root)}`;

function paint(view) {
  view.room = roomOf(view);
  paintCaches(view);
  paintMaps(view, shownStep(view));
}

function progress({ d, n }, now) {
  if (!n) return "Nothing written yet. ";
  return `${n} written, the last with ${d.steps[n - 1].odds}${n > now ? "; it is not cached yet" : ""}. `;
}

function limits({ d, n }) {
  const all = d.T + n, most = n === d.most ? `${all} tokens: the maximum here. ` : "";
  if (d.ended && n === d.steps.length) return d.ended;
  return most + (d.trained && all > d.trained ? `Prompt and continuation have ${all} tokens; training rows had ${d.trained}.` : "");
}

function heldTitle(d, held) {
  const l = d.windows.findIndex(Boolean), attended = l < 0 ? held : Math.min(held, d.windows[l] + d.sinks[l]);
  const where = d.windows.every(Boolean) ? "" : "in layers with a window, ", withState = d.states.filter(Boolean).length;
  if (withState === d.states.length) return "No cache: each layer keeps a state, which does not grow";
  return `${withState ? `${withState} layers keep a state that does not grow; ${d.states.length - withState > 1 ? "the caches of the others hold" : "the cache of the other holds"}` : "The caches hold"} ${held} token${held === 1 ? "" : "s"}${attended < held ? `; ${where}the newest query attends to ${attended}` : ""}`;
}

// The characters written by the first n tokens: [first token, one past the last, text]. A byte before the rest of its character
// is one of its own.
function charactersOf(d, n) {
  const all = [];
  for (let stop = n; stop; stop = all[0][0]) {
    const [from, text] = d.steps[stop - 1].added;
    all.unshift([from, stop, text]);
  }
  return all;
}

function labelAt({ d, written }, i) {
  if (i < d.T) return d.prompt[i];
  const [from, stop, text] = written.find(([, stop]) => i - d.T < stop), { names, id } = d.steps[i - d.T];
  return stop - from > 1 && /^<0x| \d+\/\d+$/.test(names[id]) ? `${text} ${i - d.T - from + 1}/${stop - from}` : names[id];
}

const asText = (label) => label.replaceAll("·", " ").replaceAll("⏎", "\n");

// Reuses the unchanged beginning of the text, and replaces only its end.
function writeText(view, n = view.n) {
  const { d, text } = view, written = (view.written = charactersOf(d, n));
  const wanted = [d.shown, ...written.map(([from, stop]) => d.steps.slice(from, stop).map(({ id }) => id).join("."))];
  let same = 0;
  while (same < wanted.length && text.children[same]?.of === wanted[same]) same++;
  while (text.children.length > same) text.lastChild.remove();
  text.querySelector(".last")?.classList.remove("last");
  for (let i = same; i < wanted.length; i++) text.append(i ? pieceOf(d, ...written[i - 1]) : el("i", "", wanted[0]));
  [...text.children].forEach((each, i) => (each.of = wanted[i]));
  if (n) text.lastChild.classList.add("last");
  text.scrollTop = text.scrollHeight;
}

// The space or line break before a word stays outside its outline, which would otherwise reach the token before or have two boxes.
function newToken(text) {
  const piece = el("span", "new"), word = text.trim();
  const [before, after] = word ? text.split(word) : ["", ""];
  piece.append(before, el("span", /^<0x/.test(word) ? "word byte" : "word", word || text), after);
  return piece;
}

// The tokens of a character lie side by side behind it.
function pieceOf(d, from, stop, text) {
  const piece = newToken(text), steps = d.steps.slice(from, stop), n = steps.length;
  const shades = steps.map(({ p }) => `color-mix(in srgb, var(--st-primary-color) ${Math.round(45 * (1 - p))}%, transparent)`); // stronger = less probable
  piece.style.background = n > 1 ? `linear-gradient(to right, ${shades.map((shade, i) => `${shade} ${(100 * i) / n}% ${(100 * (i + 1)) / n}%`)})` : shades[0];
  piece.title = n > 1 ? steps.map(({ odds }, i) => `${text} ${i + 1}/${n}: ${odds}`).join("\n") : steps[0].odds;
  return piece;
}

function candidates(view, step, now) {
  const head = el("tr", "");
  head.append(el("th", "", "token"), ...step.stages.map(([name]) => el("th", "", name)));
  const rows = step.candidates.map((id, i) => {
    const row = el("tr", id === step.id ? "chosen" : ""), cell = el("td", ""), label = step.names[id], begins = step.begins[id] ?? "";
    const button = el("button", "", short(label, 12));
    button.type = "button";
    button.title = begins;
    button.ariaLabel = `Write “${label}” here${begins && `, which ${begins}`}`;
    button.onclick = () => choose(view, now, id);
    cell.append(button);
    row.append(cell, ...step.stages.map(([, odds]) => shareOf(odds[i])));
    return row;
  });
  const focused = view.candidates.contains(view.root.getRootNode().activeElement);
  view.candidates.replaceChildren(head, ...rows);
  if (focused) view.candidates.querySelector(".chosen button")?.focus({ preventScroll: true });
  view.candidates.style.minWidth = `${80 + 76 * step.stages.length}px`;
}

function shareOf(p) {
  const cell = el("td", ""), share = el("div", "share"), bar = el("b", "");
  bar.style.width = `${100 * p}%`;
  share.append(bar, el("span", "", printed(p)));
  cell.append(share);
  return cell;
}

const columnsOf = (view) => view.d.T + Math.min(view.frame, view.d.most) - 1; // the last token that can be written is not read

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

const cachedPerToken = (parts) => sum(parts.map(([, numbers]) => numbers)); // numbers, in one layer

// Pixels per cached number, the same for all tensors.
function unitOf({ d, root }) {
  const widths = d.parts.flat().map(([, numbers]) => numbers), slide = Math.min(CACHES_SHARE * slideHeight(root), CACHES_HEIGHT) / d.parts.length - GAP;
  if (!widths.length) return 1;
  return Math.min(BAND / Math.min(...widths), Math.min(40, Math.max(MIN_LAYER_HEIGHT, slide)) / Math.max(...d.parts.map(cachedPerToken)));
}

// One column per token; per layer, one band per cached tensor of a head, with heights to one scale.
function paintCaches(view) {
  const { d, n, caches } = view, now = shownStep(view), held = d.T + now, all = columnsOf(view);
  const wide = caches.parentElement.clientWidth;
  if (!wide) return;
  const ratio = ratioOf(view), left = 24, column = Math.min(MAX_COLUMN_WIDTH, (wide - left) / all);
  const unit = unitOf(view), most = Math.max(...d.parts.map(cachedPerToken)) * unit || STATE_HEIGHT; // a state is drawn as high as the highest cache, and as wide as its numbers then take
  const heights = d.parts.map((parts, l) => (d.states[l] ? Math.max(most, STATE_HEIGHT) : cachedPerToken(parts) * unit)), high = sum(heights) + heights.length * GAP;
  const ink = scaledSheet(caches, wide, high, ratio);
  ink.font = `12px ${getComputedStyle(view.root).fontFamily}`;
  ink.textBaseline = "middle";
  const caching = []; // layers one below the other that cache tokens: a state has none
  for (let l = 0, y = 0; l < heights.length; y += heights[l++] + GAP) {
    const sinks = d.sinks[l], above = !d.states[l - 1] && caching.at(-1);
    if (!d.states[l]) above ? (above.to = y + heights[l]) : caching.push({ from: y, to: y + heights[l] });
    if (d.states[l]) paintState(ink, d.states[l], { left, y, wide, column, unit, high: heights[l], ground: getComputedStyle(view.root).color });
    ink.globalAlpha = 1;
    ink.fillStyle = GREY;
    ink.fillText(`L${l}`, 0, y + heights[l] / 2);
    const seen = d.windows[l] ? Math.max(sinks, held - d.windows[l]) : sinks; // first token within the window
    let top = y;
    for (const [name, numbers, head] of d.parts[l]) {
      const hue = head < 0 ? GREY : d.hues[head], alpha = name[0] === "K" || name === "latent" ? 0.6 : 0.38;
      const band = numbers * unit - (numbers * unit > 3 ? 0.5 : 0);
      const fill = (from, to, opacity, colour = hue) => {
        Object.assign(ink, { globalAlpha: opacity, fillStyle: colour });
        ink.beginPath();
        for (let t = from; t < to; t++) ink.rect(left + t * column, top, Math.max(column - (column > 3 ? 1 : 0), 0.5), band);
        ink.fill();
      };
      fill(0, Math.min(sinks, held), alpha);
      fill(sinks, Math.min(seen, held), 0.25, GREY); // outside the newest query's window
      fill(seen, held, alpha);
      if (n) fill(held - 1, held, 1); // the newest
      Object.assign(ink, { globalAlpha: 0.12, fillStyle: hue }); // tokens not yet read
      ink.fillRect(left + held * column, top, (all - held) * column, band);
      top += numbers * unit;
    }
  }
  Object.assign(ink, { globalAlpha: 1, fillStyle: getComputedStyle(view.root).color, strokeStyle: getComputedStyle(view.root).color });
  for (const { from, to } of caching) {
    ink.fillRect(left + d.T * column - 1, from, 1, to - from); // between prompt and generated tokens
    if (now) ink.strokeRect(left + (held - 1) * column - 0.5, from + 0.5, Math.max(column, 3), to - from - 1);
  }
  const withState = d.states.filter(Boolean).length, other = d.parts.length - withState;
  caches.ariaLabel = `Caches of ${other} layer${other === 1 ? "" : "s"}, each with ${held} tokens: ${d.T} of the prompt, ${now} generated${
    withState ? `; ${withState} layers with a state that does not grow: ${d.states.find(Boolean)[1]}` : ""}`;
}

// A state: a rectangle that does not grow, of as many numbers as the same area of the caches.
function paintState(ink, [numbers, text], { left, y, wide, column, unit, high, ground }) {
  const width = Math.min((numbers * unit * column) / high, wide - left);
  Object.assign(ink, { globalAlpha: 0.38, fillStyle: GREY });
  ink.fillRect(left, y, width, high);
  Object.assign(ink, { globalAlpha: 1, fillStyle: ground });
  const room = wide - left - width - 8, inside = room < ink.measureText(text).width;
  ink.fillText(text, inside ? left + 6 : left + width + 8, y + high / 2);
}

// ---- maps: one row per query, the newest at the bottom

function makeMaps(view) {
  const { d } = view, dark = isDark(view.root), key = JSON.stringify([d.marks, d.kvHeadOf, dark]);
  if (key === view.mapsKey) return mark(view);
  view.mapsKey = key;
  view.tables = d.ramps[dark ? "dark" : "light"].map((stops) => colours(stops, d.masked, d.scale));
  view.maps.style.maxWidth = `${d.H * MAX_MAP_WIDTH}px`;
  view.maps.replaceChildren(...d.marks.map((hue, h) => {
    const head = el("button", "head"), canvas = el("canvas", "");
    canvas.style.borderTop = `3px solid ${hue}`;
    head.type = "button";
    const [reads, label] = d.reads[h] ? [` reads ${d.reads[h].replace("KV head", "KV")}`, `, which reads ${d.reads[h]}`] : ["", ""]; // MLA has none
    head.ariaLabel = `Head ${h}${label}: rows are queries, columns are keys`;
    head.onclick = () => { view.d.head = h; mark(view); view.send("head", [h, Date.now()]); };
    head.append(canvas, el("span", "", `H${h}${reads}`));
    return head;
  }));
  mark(view);
}

// Marks the selected head.
function mark(view) {
  [...view.maps.children].forEach((head, h) => head.setAttribute("aria-pressed", h === view.d.head));
  view["maps-title"].textContent = newest(view, shownStep(view));
}

// Title with the strongest key of the newest query, for the selected head.
function newest(view, now) {
  const { d } = view, n = d.T + now, from = d.from[now] + d.head * n, row = d.cells.subarray(from, from + n);
  const most = row.reduce((best, cell, k) => (cell > row[best] ? k : best), 0), word = (i) => named(i, labelAt(view, i), 12);
  return `Layer ${d.layer}, H${d.head}: query ${word(n - 1)} ${d.attends ? "attends most to" : "has its largest effective weight on"} key ${word(most)}, ${d.attends ? "weight" : "share"} ${weightText(row[most], d.scale)}`;
}

function paintMaps(view, now) {
  const { d } = view, rows = Math.min(ROWS, d.before + now + 1), wide = columnsOf(view), ratio = ratioOf(view), line = Math.round(ratio);
  [...view.maps.querySelectorAll("canvas")].forEach((canvas, h) => {
    const width = Math.round(canvas.clientWidth * ratio), high = Math.round(canvas.clientHeight * ratio), row = high / ROWS;
    if (!width) return;
    Object.assign(canvas, { width, height: high }); // which clears it
    const ink = canvas.getContext("2d"), tall = Math.round(rows * row);
    ink.putImageData(scale(newestRows(d, h, now, rows, wide), rows, wide, width, tall, view.tables[h]), 0, high - tall);
    Object.assign(ink, { lineWidth: line, strokeStyle: getComputedStyle(view.root).color });
    ink.strokeRect(line / 2, high - row - line / 2, width - line, row);
  });
}

// The weights of the last queries of a head, masked after each query's own position.
function newestRows(d, h, now, rows, wide) {
  const cells = new Uint16Array(rows * wide).fill(d.scale + 1);
  for (let y = 0; y < rows; y++) {
    const i = now - rows + 1 + y, from = i < 0 ? (h * d.before + d.before + i) * d.T : d.from[i] + h * (d.T + i); // before step 0: the prompt's rows
    cells.set(d.cells.subarray(from, from + d.T + i), y * wide);
  }
  return cells;
}

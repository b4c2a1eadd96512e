// What each component draws, made of a run's header and the codes of one kind of attention. at: the kind, the selected head and
// query, and how its map is drawn; `from`: the first layer of the grid.
import { STEPS, printedCode } from "./decoded.js";
import { clamp, TOUCH } from "../ui/components/call.js";
import { named } from "../ui/components/packed_weights.js";

const MASKED = STEPS + 1, LOWEST_TOP = 1e-3; // the lowest end of a colour scale
const MODES = ["light", "dark"];

const hueOf = (run, kv) => kv % run.marks.length;
const rampsOf = (run, kvs) => Object.fromEntries(MODES.map((mode) => [mode, kvs.map((kv) => run.ramps[mode][hueOf(run, kv)])]));
const kvOf = ({ heads, kv }, layer, head) => Math.floor(head / (heads[layer] / (kv[layer] ?? heads[layer])));
const readBy = (kind, layer, head) => (kind.kv[layer] ? `KV ${kvOf(kind, layer, head)}` : "");

// Whether a query of a causal kind comes before the key.
const isMasked = ({ causal, first }, q, k) => causal && k > q + first;

// The codes of these layers' heads as cells, with room for as many heads in each; `codes` has the same places.
function cellsOf(kind, layers, room) {
  const T = kind.tokens.length, S = kind.keys.length, size = T * S;
  const codes = placed(kind, layers, room, size), cells = new Uint16Array(codes.length);
  for (let i = 0; i < codes.length; i++) cells[i] = kind.cells[codes[i]];
  if (kind.causal)
    for (let row = 0; row < codes.length / S; row++) cells.fill(MASKED, row * S + Math.min(S, (row % T) + kind.first + 1), (row + 1) * S);
  return { shape: [layers.length, room, T, S], steps: STEPS, unit: kind.unit, masks: kind.causal, cells, textOf: (i) => printedCode(codes[i], kind.top), valueAt: (i) => kind.values[codes[i]] };
}

// The codes themselves, unless layers with fewer heads leave gaps.
function placed(kind, layers, room, size) {
  const first = startOf(kind, layers[0]);
  if (layers.every((layer) => kind.heads[layer] === room)) return kind.codes.subarray(first, first + layers.length * room * size);
  const codes = new Uint16Array(layers.length * room * size);
  layers.forEach((layer, i) => codes.set(kind.codes.subarray(startOf(kind, layer), startOf(kind, layer) + kind.heads[layer] * size), i * room * size));
  return codes;
}

const startOf = ({ heads, tokens, keys }, layer) => heads.slice(0, layer).reduce((sum, n) => sum + n, 0) * tokens.length * keys.length;

export function gridOf(run, { kind, from, layer, head }) {
  const most = Math.max(...kind.heads), n = Math.min(kind.rows.length - from, Math.max(1, Math.floor(run.mostHeads / most)));
  const layers = Array.from({ length: n }, (_, i) => from + i), known = layers.every((each) => kind.kv[each]);
  const kv = layers.map((each) => Array.from({ length: kind.heads[each] }, (_, h) => kvOf(kind, each, h)));
  const alike = kv.every((each) => String(each) === String(kv[0])), all = 1 + Math.max(...kv.flat());
  return {
    ...cellsOf(kind, layers, most), layers: n, heads: layers.map((each) => kind.heads[each]), title: run.title || kind.title, asks: false, orders: true,
    labels: [kind.tokens, kind.keys], positions: kind.positions, keys: { positions: kind.keyPositions }, tokens: [kind.tokens.length, kind.keys.length], rows: layers.map((each) => kind.rows[each]),
    short: layers.map((each) => kind.rows[each].replace(/^Layer (?=\d)/, "L")), kv: alike ? kv[0] : kv, kvNames: known ? Array.from({ length: all }, (_, i) => `KV ${i}`) : [],
    selected: [layer - from, head], pinned: [], roles: null, reads: null, dotted: [], here: null, measures: {}, scored: "", tops: layers.map(() => 1), below: null,
    ramps: rampsOf(run, Array.from({ length: all }, (_, i) => i)), marks: Array.from({ length: all }, (_, i) => run.marks[hueOf(run, i)]), masked: run.masked,
  };
}

// One head's cells (1, 1, T, S), and its place: "Layer 3, head 5 reads KV 1".
function oneOf(run, { kind, layer, head }) {
  const T = kind.tokens.length, S = kind.keys.length, kv = kvOf(kind, layer, head), reads = readBy(kind, layer, head);
  const from = startOf(kind, layer) + head * T * S, codes = kind.codes.subarray(from, from + T * S), cells = Uint16Array.from(codes, (code) => kind.cells[code]);
  if (kind.causal) for (let q = 0; q < T; q++) cells.fill(MASKED, q * S + Math.min(S, q + kind.first + 1), (q + 1) * S);
  const name = `${kind.rows[layer]}, head ${head}${reads && ` reads ${reads}`}`;
  return { shape: [1, 1, T, S], steps: STEPS, unit: kind.unit, masks: kind.causal, cells, kv, name, mark: run.marks[hueOf(run, kv)],
    valueAt: (i) => kind.values[codes[i]], textOf: (i) => printedCode(codes[i], kind.top) };
}

const strongestOf = (kind, one, q) => {
  const S = kind.keys.length;
  let best = 0;
  for (let k = 1; k < S; k++) if (!isMasked(kind, q, k) && one.valueAt(q * S + k) > one.valueAt(q * S + best)) best = k;
  return best;
};

export function headOf(run, at) {
  const { kind, layer, head, query, chosen } = at, one = oneOf(run, at), T = kind.tokens.length, S = kind.keys.length;
  const key = chosen >= 0 ? chosen : strongestOf(kind, one, query);
  let beyond = LOWEST_TOP; // the largest weight of another key than the first
  for (let i = 0; i < T * S; i++) if (i % S && one.cells[i] <= STEPS) beyond = Math.max(beyond, one.cells[i] / STEPS);
  const pair = `query ${named(kind.positions[query], kind.tokens[query])} and key ${named(kind.keyPositions[key], kind.keys[key])}`, weight = isMasked(kind, query, key) ? "masked" : one.textOf(query * S + key);
  return {
    ...one, labels: kind.tokens, positions: kind.positions, keys: { labels: kind.keys, positions: kind.keyPositions }, query, key, chosen, scale: at.scale, exclude: at.exclude,
    head: [layer - at.from, head], alt: `${one.name}: map of ${T} queries by ${S} keys; ${pair}: ${weight}.`, legend: [[one.mark, one.name]], masked: run.masked,
    tops: [1, Math.min(1, beyond)], below: null, ramps: rampsOf(run, [one.kv]), texts: { title: one.name, note: noteOf(kind), hint: HINT },
  };
}

const HINT = TOUCH ? "Tap a cell to read its weight and to select its query and key."
  : "Point at a cell, or move with the arrow keys, to read its weight. A click or Enter selects its query and key.";

function noteOf(kind) {
  const sums = kind.sumsToOne ? "; its weights sum to 1" : "", rows = `Each row is a query${sums}.`;
  return kind.causal ? `${rows} No query has weight on a later key: these cells are drawn as masked.` : rows;
}

export function textOf(run, at) {
  const { kind, query } = at, one = oneOf(run, at);
  return { ...one, labels: kind.keys, positions: kind.keyPositions, queries: kind.cross ? { labels: kind.tokens, positions: kind.positions, spaced: kind.queriesSpaced } : null, first: kind.first, characters: kind.characters, next: null, query, name: one.name, of: "weights", marks: kind.marks, spaced: kind.spaced };
}

// The keys that are a picture's patches; `two`: the queries are not.
export function patchesOf(run, at) {
  const { kind, query } = at;
  return { ...oneOf(run, at), picture: run.picture, patches: run.picture.patches, before: run.picture.before, labels: kind.tokens, positions: kind.positions,
    keys: { labels: kind.keys, positions: kind.keyPositions }, query, first: kind.first, two: kind.cross };
}

// All heads of the selected layer; only the selected one is drawn until others are switched on.
export function linesOf(run, at) {
  const { kind, layer, head } = at, all = Array.from({ length: kind.heads[layer] }, (_, h) => h), { start, keyStart, T, S } = cutOf(run, at);
  const cut = (queries, keys) => [queries.slice(start, start + T), keys.slice(keyStart, keyStart + S)];
  return {
    ...lineCells(at, all.length, cutOf(run, at)), title: `${kind.rows[layer]}: weights as lines`, note: "",
    labels: cut(kind.tokens, kind.keys), places: cut(kind.positions, kind.keyPositions), first: [start + kind.first, keyStart], rowsFrom: start,
    left: [kind.tokens.length - T, kind.keys.length - S], names: all.map((h) => `H${h}`), reads: all.map((h) => readBy(kind, layer, h)),
    marks: all.map((h) => run.marks[hueOf(run, kvOf(kind, layer, h))]), alone: [`${kind.name} ${layer}`, head],
  };
}

// The queries and keys of a long text that are drawn: up to the selected query, and the keys beside them.
function cutOf({ mostLineTokens: most }, { kind, query }) {
  const T = Math.min(most, kind.tokens.length), S = Math.min(most, kind.keys.length), start = clamp(query + 1 - most, 0, kind.tokens.length - T);
  return { start, keyStart: kind.cross ? 0 : clamp(start + kind.first, 0, kind.keys.length - S), T, S };
}

function lineCells({ kind, layer }, H, { start, keyStart, T, S }) {
  const from = startOf(kind, layer), rowAt = (h, q) => from + (h * kind.tokens.length + start + q) * kind.keys.length + keyStart;
  const cells = new Uint16Array(H * T * S).fill(MASKED);
  for (let h = 0, i = 0; h < H; h++)
    for (let q = 0; q < T; q++, i += S) {
      const row = rowAt(h, q), n = kind.causal ? clamp(start + q + kind.first + 1 - keyStart, 0, S) : S; // keys that are not masked
      for (let k = 0; k < n; k++) cells[i + k] = kind.cells[kind.codes[row + k]];
    }
  return { shape: [H, 1, T, S], steps: STEPS, cells, textOf: (i) => printedCode(kind.codes[rowAt(Math.floor(i / (T * S)), Math.floor(i / S) % T) + (i % S)], kind.top) };
}

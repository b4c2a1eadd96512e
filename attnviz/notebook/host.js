// A page of one run, in a notebook or alone: mounts the app's components, gives them their data, and answers their events as the
// app's server does. All of a kind's weights are in the page; nothing is fetched.
import drawGrid from "../ui/components/head_grid.js";
import drawHead from "../ui/components/head_view.js";
import drawPatches from "../ui/components/patch_view.js";
import drawText from "../ui/components/text_view.js";
import drawLines from "../ui/components/line_view.js";
import { el } from "../ui/components/call.js";
import { saving } from "../ui/components/save.js";
import { bytesOf, codesOf, tablesOf } from "./decoded.js";
import { gridOf, headOf, linesOf, patchesOf, textOf } from "./data.js";
import { followScheme } from "./scheme.js";

const QUERY_AT = 0.75; // of the rows: the query that opens

const run = JSON.parse(document.getElementById("run").textContent), weights = document.getElementById("weights");
const part = (name) => document.querySelector(name), roots = Object.fromEntries(["head-grid", "head-view", "patch-view", "text-view", "line-view"].map((key) => [key, mounted(key)]));
const at = { kind: null, from: 0, layer: 0, head: 0, query: 0, chosen: -1, scale: "root", exclude: false };
let bytes = null;

// A component's elements in a shadow root, below an element whose class names it, as on a page of the app.
function mounted(key) {
  const root = part(`.st-key-${key}`).firstElementChild.attachShadow({ mode: "open" });
  root.append(document.getElementById(key.replace("-", "_")).content.cloneNode(true));
  return root;
}

// ---- drawing

const call = (key, draw, data, events = {}) => draw({ data, parentElement: roots[key], setTriggerValue: (name, value) => events[name]?.(value) });

const on = {
  head: ([layer, head]) => { Object.assign(at, { layer: layer + at.from, head }); drawOne(); },
  cell: ([query, chosen]) => { Object.assign(at, { query, chosen }); drawOne(); },
  scale: ([which, exclude]) => Object.assign(at, { scale: ["root", "linear", "log"][which], exclude }),
  query: ([query]) => { Object.assign(at, { query }); drawOne(); },
};

function drawAll() {
  if (!at.kind) return; // not decompressed yet
  call("head-grid", drawGrid, (at.grid ??= gridOf(run, at)));
  drawOne();
}

function drawOne() {
  call("head-view", drawHead, headOf(run, at), on);
  part(".st-key-patch-view").hidden = !at.kind.patches;
  if (at.kind.patches) call("patch-view", drawPatches, patchesOf(run, at), on);
  call("text-view", drawText, textOf(run, at), on);
  call("line-view", drawLines, linesOf(run, at), on);
}

// ---- the choices

function openKind(i) {
  const kind = run.kinds[i], start = 2 * run.kinds.slice(0, i).reduce((sum, each) => sum + each.size, 0);
  kind.codes ??= codesOf(bytes, start, kind.size);
  Object.assign(kind, (kind.values ? kind : tablesOf(kind.top, kind.unit)));
  Object.assign(at, { kind, from: 0, layer: 0, head: 0, query: Math.floor(QUERY_AT * kind.tokens.length), chosen: -1, grid: null });
  part(".about").textContent = kind.about;
  offer();
  drawAll();
}

function choice(name, options, chosen, choose) {
  const label = el("label", "", name), select = el("select", "");
  select.append(...options.map((text, value) => Object.assign(el("option", "", text), { value })));
  select.value = chosen;
  select.onchange = () => choose(+select.value);
  label.append(select);
  return label;
}

// The kinds of attention, if there are several, and the layers of the grid, if all are too many.
function offer() {
  const { kind } = at, n = layersAtOnce(kind), found = [];
  if (run.kinds.length > 1) found.push(choice("Attention", run.kinds.map(({ title }) => title[0].toUpperCase() + title.slice(1)), run.kinds.indexOf(kind), openKind));
  if (n < kind.rows.length) {
    const firsts = Array.from({ length: Math.ceil(kind.rows.length / n) }, (_, i) => i * n);
    const names = firsts.map((first) => `${kind.rows[first]} to ${kind.rows[Math.min(first + n, kind.rows.length) - 1]}`);
    found.push(choice("Layers", names, at.from / n, (i) => { Object.assign(at, { from: firsts[i], layer: firsts[i], head: 0, grid: null }); drawAll(); }));
  }
  part(".choices").replaceChildren(...found);
}

const layersAtOnce = ({ heads }) => Math.max(1, Math.floor(run.mostHeads / Math.max(...heads)));

// ---- the page in its frame

// The frame is as high as the page, where it may be asked.
function fitFrame() {
  let frame = null;
  try { frame = window.frameElement; } catch { /* another origin */ }
  if (!frame) return;
  new ResizeObserver(() => { frame.style.height = `${Math.ceil(document.body.scrollHeight)}px`; }).observe(part("main"));
}

async function start() {
  document.attnvizSave = Object.assign(saving, { isHosted: () => false, usualModel: run.title, alone: true });
  part("h1").textContent = run.title || "Attention weights";
  part(".notes").textContent = run.notes.join(" ");
  followScheme(drawAll);
  fitFrame();
  bytes = await bytesOf(weights.textContent);
  weights.remove();
  if (run.picture) run.picture.bytes = bytes.subarray(2 * run.kinds.reduce((sum, each) => sum + each.size, 0)); // after all weights
  openKind(0);
  document.documentElement.dataset.drawn = Math.round(performance.now()); // milliseconds after the page was asked for
}

start().catch((error) => { part(".notes").textContent = `The weights cannot be drawn: ${error.message}`; });

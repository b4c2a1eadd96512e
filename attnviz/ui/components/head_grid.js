// The head grid in the browser: unpacks the cells, paints all heads on one canvas under their boxes (a canvas per head would
// be a compositor layer each), and handles pointer and keys without the server.
import { begun, boxOf, clamp, el, isBrowsers, partsOf, POINT, presses, slideHeight, TOUCH, zoomOf } from "./call.js";
import {
  beside, colours, fingers, hovering, isDark, named, painter, placeOf, rampOf, ratioOf, scale, sharply, sheet, short, sideOfKeys, unpack, ways, weightAt, weightOf,
} from "./packed_weights.js";
import { columnsOf, inRows, inSight, STEP, widths, zoomButtons, zooming, zoomTo } from "./head_zoom.js";
import { saveButtons } from "./save_buttons.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".hg");
  const view = (root.view ??= create(root)), call = begun(root);
  view.select = (layer, head) => setTriggerValue("select", [layer, head]);
  document.addEventListener("attnviz-shown", (e) => follow(view, e.detail), { signal: call.signal });
  update(view, data);
  return call.end;
}

function create(root) {
  const view = { root, canvas: el("canvas", ""), ...partsOf(root, ["tools", "scored", "read", "scroll", "grid", "legend"]), show: null, zoom: 1 };
  view.paint = painter(root, () => paint(view));
  new ResizeObserver(() => requestAnimationFrame(() => resized(view))).observe(view.grid);
  view.grid.onpointermove = hovering((e) => point(view, e));
  view.grid.onpointerleave = hovering(() => leave(view));
  fingers(view.grid, (e) => point(view, e));
  zooming(view);
  root.fill = () => resized(view);
  view.grid.onclick = (e) => { const head = headAt(e); if (head) choose(view, head); };
  view.grid.onkeydown = (e) => key(view, e);
  view.grid.addEventListener("focusin", (e) => { const head = headAt(e); if (head) { view.at = head; showReadout(view); } });
  return view;
}

function update(view, bytes) {
  const old = view.d, d = (view.d = bytes === view.bytes ? old : unpack(bytes));
  view.bytes = bytes;
  view.dark = isDark(view.root);
  const [, , N, M] = d.shape;
  view.cell = view.cell && [Math.min(view.cell[0], N - 1), Math.min(view.cell[1], M - 1)];
  if (!old || frameOf(old) !== frameOf(d)) { tools(view); lay(view); }
  else if (old !== d && sortedByData(view)) lay(view);
  mark(view);
  legend(view);
  view.paint(); // reads layout, so it comes before the text updates that would force another layout
  view.scored.textContent = d.scored;
  showReadout(view);
  saveButtons(view.root, () => picture(view));
}

// For saving: all heads, without hover and controls, not zoomed, and sharp at twice the size.
function picture(view) {
  const { d, root, scroll, scored, heads } = view;
  const stage = (ratio) => {
    const { zoom } = view, { scrollLeft, scrollTop } = scroll;
    view.zoom = 1;
    widths(view);
    view.canvas.style.width = "0"; // it may still be as wide as on the page
    root.style.width = `${scroll.scrollWidth}px`; // includes the part that scrolls
    scroll.scrollTo(0, 0);
    scored.hidden = !heads.some(({ here }) => here?.offsetWidth); // it is about the roles
    sharply(view, () => paint(view), ratio);
    return () => { root.style.width = ""; scored.hidden = false; view.zoom = zoom; widths(view); scroll.scrollTo(scrollLeft, scrollTop); paint(view); };
  };
  return { title: d.title || undefined, legend: d.kvNames.map((name, kv) => [d.marks[kv], name]), unsaved: ".tools, .read, .keys, .mark", stage };
}

// What the elements are built from. The numbers of `measures` only sort them: new ones come with every text and mask.
const frameOf = (d) => JSON.stringify([d.shape.slice(0, 2), d.heads, d.kv, d.kvNames, d.reads, d.rows, d.roles, Object.keys(d.measures ?? {})]);

const sortedByData = ({ show }) => show === "near" || show.startsWith("by:");

// ---- the elements

const MANY = 128; // heads, above which the grid starts in the overview

function tools(view) {
  view.tools.replaceChildren();
  view.zoom = 1;
  const { d } = view, many = d.layers * d.shape[1] > MANY;
  view.show ??= many ? "overview" : "layers";
  if (d.roles || d.orders) view.tools.append(shownHeads(view, many));
  else view.show = many ? "overview" : "layers";
  view.zooms = many || !!d.roles;
  if (view.zooms) view.tools.append(zoomButtons(view));
}

function shownHeads(view, many) {
  const { d } = view;
  const count = {};
  d.roles?.flat().forEach(([name]) => (count[name] = (count[name] ?? 0) + 1));
  const choices = [["overview", "overview: all heads, small"], ["layers", "all heads, layer by layer"], ...(d.roles ? [["roles", "all heads, sorted by role"]] : []),
    ...Object.keys(d.measures ?? {}).map((name) => ["by:" + name, `all heads, sorted by ${name}`]),
    ["near", "all heads, most similar to the selected first"],
    ...(d.roles ? [["=induction", `find the induction heads (${count.induction ?? 0})`]] : []),
    ...Object.keys(count).filter((name) => name !== "induction").sort().map((name) => ["=" + name, `only ${name} (${count[name]})`])];
  const select = el("select");
  select.setAttribute("aria-label", "Heads shown");
  choices.forEach(([value, text]) => select.append(Object.assign(el("option", "", text), { value, disabled: value === "=induction" && !count.induction })));
  if (![...select.options].some((each) => each.value === view.show && !each.disabled)) view.show = many ? "overview" : "layers";
  select.value = view.show;
  select.onchange = () => { view.show = select.value; view.zoom = 1; lay(view); mark(view); paint(view); };
  return select;
}

// The maps of a single layer are wrapped while presenting: a screen is about twice as wide as high.
function linesOf({ root, d, show }) {
  const wraps = d.shape[0] === 1 && show === "layers" && slideHeight(root) < Infinity;
  return wraps ? Math.max(1, Math.round(Math.sqrt(d.shape[1] / 2))) : 1;
}

function resized(view) {
  if (view.lines !== linesOf(view) || (view.zoom === 1 && view.columns !== columnsOf(view))) { lay(view); mark(view); }
  else if (view.zoom === 1) widths(view);
  view.paint();
}

function lay(view) {
  const { grid, d } = view, [L, H] = d.shape;
  view.heads = [];
  view.lines = linesOf(view);
  view.columns = columnsOf(view);
  grid.replaceChildren(view.canvas);
  widths(view);
  if (view.columns > 1) columns(view);
  else if (inRows(view)) {
    const all = Array.from({ length: H }, (_, head) => head), n = Math.ceil(H / view.lines);
    for (let from = 0; from < H; from += n) {
      const heads = all.slice(from, from + n);
      grid.append(brackets(d, heads));
      for (let layer = 0; layer < L; layer++)
        grid.append(row([rowName(d.rows[layer])], view, heads.map((head) => [layer, head])));
    }
  } else {
    for (const [name, heads] of groups(view))
      grid.append(row([el("div", "role", name)], view, heads));
  }
}

// The layers of the overview from top to bottom, then on in the next column; each layer is one row of the elements.
function columns(view) {
  const { grid, d } = view, [L, H] = d.shape, n = Math.ceil(d.layers / view.columns), all = Array.from({ length: H }, (_, head) => head);
  const at = (line, down, across) => {
    let next = across * (H + 1) + 1;
    for (const box of line.children) {
      const span = box.dataset.span ?? 1;
      box.style.gridArea = `${down} / ${next} / auto / span ${span}`;
      next += +span;
    }
    line.firstChild?.classList.toggle("further", across > 0);
    grid.append(line);
  };
  for (let across = 0; across < view.columns; across++) at(brackets(d, all), 1, across);
  for (let layer = 0; layer < L; layer++)
    at(row([rowName(d.rows[layer])], view, all.map((head) => [layer, head])), 2 + (layer % n), Math.floor(layer / n));
}

// "Layer 0", or "L0" in a narrow grid.
function rowName(name) {
  const box = el("div", "layer"), [, rest] = name.match(/^L(ayer )\d+$/) ?? [];
  if (!rest) box.textContent = name;
  else box.append("L", el("span", "wide", rest), name.slice(6));
  return box;
}

function row(before, view, heads) {
  const line = el("div", "row");
  line.setAttribute("role", "row");
  before[0].setAttribute("role", "rowheader");
  line.append(...before, ...heads.map(([layer, head]) => (hasHead(view.d, layer, head) ? makeHead(view, layer, head) : el("div", ""))));
  return line;
}

// Layers may have fewer heads than there are columns.
const hasHead = (d, layer, head) => !d.heads || head < d.heads[layer];
const nameOf = (d, [layer, head]) => `${d.short?.[layer] ?? `L${layer}`} H${head}`;

function groups(view) {
  const { d, show } = view, [L, H] = d.shape;
  if (show !== "near" && !show.startsWith("by:")) return byRole(view);
  const value = show === "near" ? similarTo(d, d.selected) : ([layer, head]) => d.measures[show.slice(3)][layer][head] ?? -Infinity;
  const all = Array.from({ length: L * H }, (_, i) => [Math.floor(i / H), i % H]).filter((at) => hasHead(d, ...at)).map((at) => [...at, value(at)]);
  const named = show === "near" ? `most similar to ${nameOf(d, d.selected)} (cosine of the maps)` : `largest ${show.slice(3)} first`;
  return [[named, all.sort((a, b) => b[2] - a[2])]];
}

// Cosine similarity of two heads' maps, over the cells that are unmasked in either.
function similarTo(d, [layer, head]) {
  const [, H, N, M] = d.shape, size = N * M, masked = d.steps + 1;
  const of = ([l, h]) => d.cells.subarray((l * H + h) * size, (l * H + h + 1) * size), selected = of([layer, head]);
  return (at) => {
    const other = of(at);
    let both = 0, a = 0, b = 0;
    for (let i = 0; i < size; i++) {
      const x = selected[i] === masked ? 0 : weightOf(selected[i], d.steps), y = other[i] === masked ? 0 : weightOf(other[i], d.steps);
      both += x * y; a += x * x; b += y * y;
    }
    return a && b ? both / Math.sqrt(a * b) : 0;
  };
}

function byRole({ d, show }) {
  const groups = {};
  d.roles.forEach((line, layer) => line.forEach(([name, score], head) => {
    if (show === "roles" || show === "=" + name) (groups[name] ??= []).push([layer, head, score]);
  }));
  return Object.entries(groups).sort().map(([name, heads]) => [name, heads.sort((a, b) => b[2] - a[2])]);
}

function brackets(d, heads) {
  const line = el("div", "row"), runs = [];
  if (d.kv[0].length || !d.kvNames.length) return line; // each layer has KV heads of its own, or their number is not known
  for (const head of heads) {
    const kv = d.kv[head], run = runs.at(-1);
    if (run?.kv === kv) run.heads.push(head);
    else runs.push({ kv, heads: [head] });
  }
  line.setAttribute("role", "row");
  line.append(el("div", "layer"));
  for (const { kv, heads } of runs) {
    const box = el("div", "kv"), n = heads.length;
    box.setAttribute("role", "columnheader");
    box.style.borderColor = d.marks[kv];
    box.style.gridColumn = `span ${(box.dataset.span = n)}`;
    box.append(el("b", "", d.kvNames[kv]), el("span", "wide", ` · read by ${n > 3 ? `H${heads[0]}–H${heads[n - 1]}` : heads.map((h) => "H" + h).join(", ")}`));
    line.append(box);
  }
  return line;
}

function makeHead(view, layer, head) {
  const { d } = view, box = el("div", "head"), map = el("div", "map"), cap = el("div", "cap");
  const role = d.roles?.[layer][head], name = view.show === "layers" ? `H${head}` : nameOf(d, [layer, head]), reads = readBy(d, layer, head);
  const dotted = !!role && d.dotted.includes(role[0]);
  box.classList.toggle("has-role", dotted);
  const pin = el("em", "pin");
  Object.assign(box, { layer, head, map, pin, tabIndex: -1 });
  box.setAttribute("role", "gridcell");
  box.setAttribute("aria-label", `${d.rows[layer]}, head ${head}` + (reads && `, reads ${reads}`) + (role ? ", " + role[2] : ""));
  box.style.setProperty("--hue", d.marks[kvOf(d, layer, head)]);
  map.append(el("i", "mark"), ...(dotted ? [el("i", "dot")] : [])); // an element, which a saved picture has too
  cap.append(el("b", "", name), pin);
  if (role) {
    box.here = el("span", "");
    cap.append(Object.assign(el("span", "", role[2]), { title: role[2] }), box.here);
  }
  box.append(map, cap);
  view.heads.push(box);
  return box;
}

const kvOf = (d, layer, head) => (d.kv[layer]?.length ? d.kv[layer] : d.kv)[head];
const readBy = (d, layer, head) => d.reads?.[layer][head] ?? d.kvNames[kvOf(d, layer, head)] ?? "";
const same = (box, [layer, head]) => box.layer === layer && box.head === head;

const write = (at, text) => at.textContent === text || (at.title = at.textContent = text); // unchanged text is not rewritten, to avoid a layout

function mark(view) {
  const { selected, pinned, here } = view.d;
  for (const box of view.heads) {
    const chosen = String(same(box, selected)), note = pinned.some((p) => same(box, p)) ? " · pinned" : "";
    if (box.getAttribute("aria-selected") !== chosen) box.setAttribute("aria-selected", chosen);
    write(box.pin, note);
    if (box.here && here) write(box.here, "here: " + here[box.layer][box.head]);
    box.tabIndex = -1;
  }
  const followed = view.at === view.chosen; // the readout is about the selected head unless another one is pointed at
  view.chosen = view.heads.find((box) => same(box, selected)) ?? view.heads[0];
  if (followed || !view.heads.includes(view.at)) view.at = view.chosen;
  view.at.tabIndex = 0;
}

function legend(view) {
  const { d, dark, legend: line } = view, kv = kvOf(d, ...d.selected), top = d.tops[d.selected[0]], shown = JSON.stringify([dark, kv, top, d.unit, d.masks, d.ramps, d.masked, !!d.roles, !!d.merged]);
  if (view.legendShown === shown) return;
  view.legendShown = shown;
  const bar = el("i", ""), grey = el("i", "grey"), scale = el("span", ""), mask = el("span", "");
  const mode = dark ? "dark" : "light", signed = top !== 1;
  bar.style.background = rampOf([...(signed ? [...d.below[mode]].reverse() : []), ...d.ramps[mode][kv]]);
  grey.style.background = `rgba(${d.masked})`;
  scale.append(signed ? `effective weight −${top}` : "weight 0", bar, `${top * (d.unit ?? 1)} (square-root scale)`);
  mask.append(grey, "masked");
  line.replaceChildren(scale, ...(d.masks === false ? [] : [mask]), el("span", "", d.merged ? "row = query, mean of a character’s tokens; column = key, sum of a character’s tokens" : "row = query; column = key"),
    ...(d.roles ? [el("span", "dots", dotsOf(d))] : []),
    el("span", "keys", keysOf(view)));
}

function dotsOf({ dotted }) {
  const names = dotted.map((role) => role.replace(" ", "-")), last = names.pop();
  return `dot = ${names.join(", ")} or ${last} head`;
}

function keysOf({ zooms }) {
  if (TOUCH) return zooms ? "Zoom: two fingers." : "";
  return `Arrow keys: head. Shift + arrow keys: cell. Enter: select.${zooms ? " Zoom: Ctrl or ⌘ + wheel, two fingers, keys + − 0." : ""}`;
}

// ---- the pixels

const MAX_PIXELS = 12e6; // phones limit the size of a canvas

function paint(view) {
  const { d, heads, grid, canvas } = view, zoom = zoomOf(grid), all = boxOf(grid, zoom);
  if (!all.width) return;
  const seen = view.zoom > 1 ? inSight(view, zoom) : all;
  const ratio = Math.min(ratioOf(view), zoom * Math.sqrt(MAX_PIXELS / (seen.width * seen.height)));
  const [, H, N, M] = d.shape, tables = tablesOf(d, view.dark ? "dark" : "light");
  const pixels = (size) => (size / zoom) * ratio, ink = sheet(canvas, Math.ceil(pixels(seen.width)), Math.ceil(pixels(seen.height)), ratio);
  Object.assign(canvas.style, { left: `${(seen.left - all.left) / zoom}px`, top: `${(seen.top - all.top) / zoom}px` });
  ink.imageSmoothingEnabled = false;
  for (const { map, layer, head } of heads) {
    const box = boxOf(map, zoom);
    if (box.bottom < seen.top || box.top > seen.bottom || box.right < seen.left || box.left > seen.right) continue;
    const side = Math.round(map.clientWidth * ratio), at = (layer * H + head) * N * M, cells = d.cells.subarray(at, at + N * M), table = tables(layer, kvOf(d, layer, head));
    const x = Math.round(pixels(box.left - seen.left)), y = Math.round(pixels(box.top - seen.top + map.clientTop * zoom));
    if (view.zoom > 1 && side > Math.max(N, M)) ink.drawImage(aPixelPerCell(view, cells, N, M, table), x, y, side, side);
    else ink.putImageData(scale(cells, N, M, side, side, table, d.steps + 1), x, y);
  }
}

// The colour table of a KV head in a layer; effective weights have colours below zero, and end at the layer's largest.
function tablesOf(d, mode) {
  const made = new Map();
  return (layer, kv) => {
    const top = d.tops[layer], key = `${kv} ${top}`;
    if (!made.has(key)) made.set(key, colours(d.ramps[mode][kv], d.masked, d.steps, (size) => Math.sqrt(Math.min(1, size / top)), top !== 1 && d.below[mode]));
    return made.get(key);
  };
}

function aPixelPerCell(view, cells, N, M, table) {
  const canvas = (view.stamp ??= el("canvas", "")), ink = sheet(canvas, M, N, 1);
  ink.putImageData(scale(cells, N, M, M, N, table, view.d.steps + 1), 0, 0);
  return canvas;
}

// ---- pointer and keys

const headAt = (e) => e.target.closest(".head");

function point(view, e) {
  const map = e.target.closest(".map");
  if (!map) return;
  const box = boxOf(map), [, , N, M] = view.d.shape;
  const at = (p, from, size, n) => clamp(Math.floor(((p - from) / size) * n), 0, n - 1);
  view.at = map.parentElement;
  view.cell = [at(e.clientY, box.top, box.height, N), at(e.clientX, box.left, box.width, M)];
  showReadout(view);
}

function leave(view) {
  view.cell = null;
  view.at = view.chosen;
  showReadout(view);
}

function key(view, e) {
  const way = ways[e.key], head = headAt(e);
  if (!head || isBrowsers(e)) return;
  const levels = { "+": view.zoom * STEP, "=": view.zoom * STEP, "-": view.zoom / STEP, "0": 1 };
  if (presses(e)) choose(view, head);
  else if (view.zooms && e.key in levels) zoomTo(view, levels[e.key]);
  else if (!way) return;
  else if (e.shiftKey) step(view, way);
  else nextTo(view, head, way)?.focus();
  e.preventDefault();
}

function step(view, [down, right]) {
  const [, , N, M] = view.d.shape, [q, k] = view.cell ?? [N - 1 - down, 0 - right];
  view.cell = beside([q, k], [down, right], [N, M]);
  showReadout(view);
  if (view.zoom > 1) view.at.map.querySelector(".mark").scrollIntoView({ block: "nearest", inline: "nearest" });
}

function nextTo(view, from, [down, right]) {
  const zoom = zoomOf(from), a = boxOf(from, zoom);
  let best = null, least = Infinity;
  for (const to of view.heads) {
    const b = boxOf(to, zoom), dx = b.left - a.left, dy = b.top - a.top;
    const ahead = down ? dy * down : dx * right, across = Math.abs(down ? dx : dy);
    if (ahead > 1 && across * 9 + ahead < least && (down || across < 1)) [best, least] = [to, across * 9 + ahead];
  }
  return best;
}

function select(view, head) {
  view.d.selected = head;
  if (view.show === "near") { lay(view); view.paint(); }
  mark(view);
  legend(view);
}

// Marks the head reported by head_view, if it is not the one selected here.
function follow(view, head) {
  if (!view.d || view.d.asks) return;
  if (!view.cell) view.at = null;
  select(view, head);
  showReadout(view);
}

function choose(view, box) {
  view.at = box;
  select(view, [box.layer, box.head]); // immediately; the server's answer agrees
  if (view.d.asks) view.select(box.layer, box.head);
  else document.dispatchEvent(new CustomEvent("attnviz-head", { detail: [box.layer, box.head] })); // head_view sends the event to the server
}

// ---- the readout

function showReadout(view) {
  const { d, at, cell, read, grid } = view, kv = kvOf(d, at.layer, at.head);
  const role = d.roles?.[at.layer][at.head][2], does = role ? `: ${role}${d.here ? `; here: ${d.here[at.layer][at.head]}` : ""}` : "", reads = readBy(d, at.layer, at.head);
  const line = [el("b", "", `${d.rows[at.layer]}, H${at.head}`), `${reads && ` reads ${reads}`}${does}. `];
  grid.classList.toggle("pointed", !!cell);
  read.style.borderColor = d.marks[kv];
  if (cell) {
    const [, H, N, M] = d.shape, [q, k] = cell;
    place(grid.style, q, k, N, M);
    const weight = blockOf(d, 0) * blockOf(d, 1) > 1 ? "largest weight " : "weight ", i = ((at.layer * H + at.head) * N + q) * M + k;
    line.push(tokens(d, 0, q), " → ", tokens(d, 1, k), ": ", el("b", "", weightAt(d, i, weight)));
  } else line.push(`${POINT} a cell for its weight.`);
  read.replaceChildren(...line);
}

function place(style, q, k, N, M) {
  style.setProperty("--x", k / M);
  style.setProperty("--y", q / N);
  style.setProperty("--w", 1 / M);
  style.setProperty("--h", 1 / N);
}

// Number of tokens per row or column.
const blockOf = (d, axis) => Math.ceil(d.tokens[axis] / d.shape[2 + axis]);

function tokens(d, axis, index) {
  const block = blockOf(d, axis), first = index * block, last = Math.min(first + block, d.tokens[axis]) - 1;
  const name = axis ? "key" : "Query", text = (i) => `“${short(d.labels[axis][i])}”`;
  const label = first === last ? `${name} ${named(placeOf(axis ? sideOfKeys(d) : d, first), d.labels[axis][first])}` : `${axis ? "keys" : "Queries"} ${first}–${last} ${text(first)} … ${text(last)}`;
  const span = el("bdi", "", label);
  span.title = d.labels[axis].slice(first, last + 1).join(" ");
  return span;
}

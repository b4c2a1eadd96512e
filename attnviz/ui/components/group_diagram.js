// Which query head reads which KV head: circles above, boxes below, one line per query head.
// data: {label, hint?, rows: {queries, kvs, reads, index}, queries: [{name, kv, also?, description, wrong}], kvs: [{name, colour, description}],
// selected}. also: further boxes that a query head reads.
import { begun, clamp, jsonOf, presses, TOUCH } from "./call.js";
import { saveButtons } from "./save_buttons.js";
import { add } from "./svg.js";

const HINT = `${TOUCH ? "Tap a head" : "Point at a head, or use the arrow keys,"} to see which heads share its keys and values.`;

// Positions for a given width; a KV head is centred below its share of the row.
function layout(data, width) {
  const slot = width / data.queries.length, share = width / data.kvs.length;
  return {
    slot, share, radius: clamp(slot * 0.42, 8, 20), top: 52, bottom: 164, index: 244, height: 260,
    query: (h) => slot * (h + 0.5), kv: (j) => share * (j + 0.5), box: clamp(share * 0.84, 14, 118),
  };
}

const boxes = (q) => [q.kv, ...(q.also ?? [])];
const readBy = (node) => node.dataset.kv.split(" ");

function drawLinks(svg, data, at) {
  data.queries.forEach((q, h) => boxes(q).forEach((kv) => {
    const [x, y] = [at.query(h), at.kv(kv)], middle = (at.top + at.bottom) / 2;
    const d = `M${x} ${at.top + at.radius}C${x} ${middle} ${y} ${middle} ${y} ${at.bottom}`;
    add(svg, "path", { d, class: q.wrong ? "link wrong" : "link", stroke: data.kvs[kv].colour, "data-q": h, "data-kv": kv });
  }));
}

function drawQueries(svg, data, at) {
  data.queries.forEach((q, h) => {
    const g = add(svg, "g", { class: "head", role: "button", "data-q": h, "data-kv": boxes(q).join(" "), "aria-label": q.description });
    g.style.setProperty("--hue", data.kvs[q.kv].colour);
    g.setAttribute("aria-pressed", h === data.selected);
    add(g, "circle", { cx: at.query(h), cy: at.top, r: at.radius });
    add(g, "text", { x: at.query(h), y: at.top, class: at.slot < 34 ? "small" : "" }, at.slot < 34 ? h : q.name);
    if (!data.rows.index) return;
    add(g, "rect", { x: at.query(h) - at.radius, y: at.index - 12, width: 2 * at.radius, height: 24, rx: 4, class: q.wrong ? "wrong" : "" });
    add(g, "text", { x: at.query(h), y: at.index }, q.kv);
  });
}

function drawKvs(svg, data, at) {
  data.kvs.forEach((kv, j) => {
    const g = add(svg, "g", { class: "head", role: "img", "data-kv": j, "aria-label": kv.description });
    g.style.setProperty("--hue", kv.colour);
    add(g, "rect", { x: at.kv(j) - at.box / 2, y: at.bottom, width: at.box, height: 36, rx: 6 });
    const fits = kv.name.length * 7 < at.box;
    add(g, "text", { x: at.kv(j), y: at.bottom + 18, class: fits ? "" : "small" }, fits ? kv.name : j);
  });
}

function draw(root, data, width) {
  const at = layout(data, width), box = root.querySelector(".gd-picture");
  if (!data.rows.index) at.height = at.bottom + 44;
  box.replaceChildren();
  const svg = add(box, "svg", { viewBox: `0 0 ${width} ${at.height}`, width, height: at.height, role: "group", "aria-label": data.label });
  add(svg, "text", { x: 0, y: 12, class: "row" }, data.rows.queries);
  add(svg, "text", { x: 0, y: at.index - 24, class: "row" }, data.rows.reads);
  drawLinks(svg, data, at);
  drawQueries(svg, data, at);
  drawKvs(svg, data, at);
  root.querySelector(".gd-kvs").textContent = data.rows.kvs;
  root.querySelector(".gd-index").textContent = data.rows.index;
}

// Highlights one KV head with its query heads and dims the rest; for a query head, also emphasises its own line.
function light(root, data, node) {
  const svg = root.querySelector("svg");
  svg.classList.toggle("lit", Boolean(node));
  for (const part of svg.querySelectorAll("[data-kv]")) {
    part.classList.toggle("on", Boolean(node) && readBy(part).some((kv) => readBy(node).includes(kv)));
    part.classList.toggle("own", Boolean(node) && part.dataset.q !== undefined && part.dataset.q === node.dataset.q);
  }
  const description = node ? node.getAttribute("aria-label") : data.hint ?? HINT;
  const line = root.querySelector(".gd-readout");
  if (line.textContent !== description) line.textContent = description;
}

// Roving tab index: one tab stop; left and right move along a row, up and down change the row.
function step(nodes, node, key) {
  const row = nodes.filter((n) => (n.dataset.q === undefined) === (node.dataset.q === undefined));
  const i = row.indexOf(node);
  if (key === "ArrowLeft" || key === "ArrowRight") return row[clamp(i + (key === "ArrowLeft" ? -1 : 1), 0, row.length - 1)];
  if (key === "ArrowDown") return nodes.find((n) => n.dataset.q === undefined && readBy(node).includes(n.dataset.kv));
  if (key === "ArrowUp") return nodes.find((n) => n.dataset.q !== undefined && readBy(n).includes(node.dataset.kv));
  return null;
}

export default function ({ data: bytes, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".gd"), data = jsonOf(bytes);
  const nodes = () => [...root.querySelectorAll(".head")];
  const stopAt = (node) => nodes().forEach((n) => n.setAttribute("tabindex", n === node ? 0 : -1));
  const pick = (node) => node && node.dataset.q !== undefined && setTriggerValue("head", Number(node.dataset.q));
  const paint = () => {
    const focused = nodes().indexOf(parentElement.activeElement);
    draw(root, data, Math.max(240, Math.floor(root.clientWidth)));
    stopAt(nodes()[Math.max(0, focused)] || nodes()[0]);
    light(root, data, null);
    if (focused >= 0 && nodes()[focused]) nodes()[focused].focus();
  };
  const call = begun(root), on = (event, act) => root.addEventListener(event, act, { signal: call.signal });
  on("pointerover", (e) => light(root, data, e.target.closest(".head")));
  on("pointerleave", () => light(root, data, null));
  on("focusin", (e) => light(root, data, e.target.closest(".head")));
  on("focusout", () => light(root, data, null));
  on("click", (e) => pick(e.target.closest(".head")));
  on("keydown", (e) => {
    const node = e.target.closest(".head");
    if (!node) return;
    const next = step(nodes(), node, e.key);
    if (next) { stopAt(next); next.focus(); e.preventDefault(); }
    if (presses(e)) { pick(node); e.preventDefault(); }
  });
  paint();
  const legend = data.kvs.map((kv) => [kv.colour, kv.name]);
  saveButtons(root, () => ({ title: data.label, legend, unsaved: ".gd-readout" }));
  let width = root.clientWidth;
  const resized = new ResizeObserver(() => { if (root.clientWidth !== width) { width = root.clientWidth; paint(); } });
  resized.observe(root);
  call.signal.onabort = () => resized.disconnect();
  return call.end;
}

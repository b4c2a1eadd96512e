// Rectangles to scale. A panel: {title, note, alt, line, legend, width, height, row, rects: [[x, y, width, height, colour, opacity, description]],
// labels: [[x, y, where, text, text below]], rest: what has no room for a label}, all in its own units; row: pixels for a unit downwards, or 0 for one scale.
import { el, jsonOf } from "./call.js";
import { calculation, foldAll } from "./folded.js";
import { saveButtons } from "./save_buttons.js";
import { add } from "./svg.js";

const BARS = 0.3; // least share of the width for the bars, beside their labels

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".ts"), { panels, legend } = jsonOf(data);
  root.replaceChildren(...panels.map(panel));
  foldAll(root);
  root.getRootNode().host.dataset.narrowest = Math.max(0, ...[...root.querySelectorAll(".rows .picture")].map(narrowest)); // for stage.js
  saveButtons(root, () => ({ title: "", legend }));
}

function panel(p) {
  const section = el("section", p.row ? "rows" : "square"), picture = el("div", "picture");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", p.alt);
  const before = p.labels.filter(([, , where]) => where.startsWith("before")).map(([, , , text]) => text.length);
  picture.style.marginLeft = before.length ? `${0.52 * Math.max(...before) + 1.2}em` : "";
  if (p.row) picture.style.height = `${p.row * p.height}px`;
  else picture.style.aspectRatio = `${p.width} / ${p.height}`;
  draw(picture, p);
  picture.append(...p.labels.map((each) => label(p, each)));
  section.append(el("h2", "", p.title), el("p", "", p.note), picture);
  if (p.rest) section.append(el("p", "rest", p.rest));
  if (p.line) section.append(calculation(el("p", "line", p.line), el("p", "letters", p.legend)));
  return section;
}

// The width in which the bars have their share, in pixels of the picture.
function narrowest(picture) {
  const { marginLeft, marginRight } = getComputedStyle(picture);
  return (parseFloat(marginLeft) + parseFloat(marginRight)) / (1 - BARS);
}

function draw(picture, p) {
  const svg = add(picture, "svg", { viewBox: `0 0 ${p.width} ${p.height}`, preserveAspectRatio: "none" });
  for (const [x, y, width, height, fill, opacity, description] of p.rects)
    add(add(svg, "rect", { x, y, width, height, style: look(fill, opacity) }), "title", {}, description);
}

// A faint rectangle has its full colour at the edge, which alone stands out from the page.
function look(colour, opacity) {
  return opacity < 1 ? `fill: color-mix(in srgb, ${colour} ${100 * opacity}%, transparent); stroke: ${colour}` : `fill: ${colour}`;
}

function label(p, [x, y, where, text, below]) {
  const span = el("span", where, text);
  Object.assign(span.style, { left: `${(100 * x) / p.width}%`, top: `${(100 * y) / p.height}%` });
  if (below) span.append(el("small", "", below));
  return span;
}

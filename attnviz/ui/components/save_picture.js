// A plotly chart consists of several stacked SVGs; the picture joins them.
import { begun } from "./call.js";
import { fillBar } from "./save_choices.js";
import { background } from "../../server/page.js";

async function chartPicture({ chart: key, below }) {
  const box = document.querySelector(`.st-key-${key}`), { atWidth, WIDTH } = document.attnvizSave, { width: before } = sizeOf(box);
  const back = await atWidth(box, box, WIDTH);
  try {
    await resized(box, before);
    return joined(box, below);
  } finally {
    back();
  }
}

function joined(box, below) {
  const { node, sheet, heading } = document.attnvizSave;
  const chart = box.querySelector(".js-plotly-plot"), { layers, width, height } = sizeOf(box), title = heading(chart);
  const svg = sheet(chart.querySelector("text") ?? chart, node("g", {}, ...layers.map(asPainted)), width, height, { title, note: below });
  return { svg, title };
}

function sizeOf(box) {
  const layers = [...box.querySelectorAll("svg.main-svg")], [width, height] = ["width", "height"].map((side) => layers[0][side].baseVal.value);
  return { layers, width, height };
}

// Plotly follows its box late.
async function resized(box, before) {
  const { WIDTH } = document.attnvizSave, end = performance.now() + 1500;
  while (Math.abs(before - WIDTH) > 8 && sizeOf(box).width === before && performance.now() < end) await new Promise((done) => setTimeout(done, 50));
  await new Promise((done) => setTimeout(done, 100));
}

// A copy with colours inlined: page_style.css overrides the colour of some texts. Each line of text keeps its width on the page,
// whatever font the viewer has.
function asPainted(layer) {
  const copy = layer.cloneNode(true), texts = [...layer.querySelectorAll("text")], { savedAs } = document.attnvizSave;
  copy.querySelectorAll("text").forEach((text, i) => {
    text.style.fill = getComputedStyle(texts[i]).fill;
    const lines = linesOf(texts[i]);
    linesOf(text).forEach((line, j) => {
      const width = lines[j].getComputedTextLength();
      if (width) document.attnvizSave.set(line, { textLength: width, lengthAdjust: "spacingAndGlyphs" });
    });
  });
  if (savedAs().transparent) for (const each of [copy, ...copy.querySelectorAll("rect.bg")]) unfilled(each, background());
  for (const each of [copy, ...copy.querySelectorAll("[class]")]) each.removeAttribute("class"); // of the page's style sheet
  return copy;
}

function unfilled(element, colour) {
  element.style.background = "";
  if (element.style.fill === colour) element.style.fill = "none";
}

const linesOf = (text) => (text.querySelector("tspan.line") ? [...text.querySelectorAll("tspan.line")] : [text]);

export default function ({ data, parentElement, setTriggerValue }) {
  const bar = parentElement.querySelector(".bar"), call = begun(bar), save = (kind) => document.attnvizSave.saveAs(kind, document.querySelector(`.st-key-${data.chart}`), chartPicture(data));
  bar.replaceChildren();
  fillBar(bar, data.chart.replace("chart-", "figure-"), save, (kind) => kind);
  // the server makes the HTML file
  const tell = () => { const { link } = document.attnvizSave.savedAs(); if (link !== data.link) setTriggerValue("link", link); };
  document.addEventListener("attnviz-saving-changed", tell, { signal: call.signal });
  if (document.attnvizSave) tell();
  return call.end;
}

// A plotly chart consists of several stacked SVGs; the picture joins them.
function chartPicture(chart) {
  const layers = [...chart.querySelectorAll("svg.main-svg")], [width, height] = ["width", "height"].map((side) => layers[0][side].baseVal.value);
  const { node, sheet, heading } = document.attnvizSave;
  return sheet(chart, node("g", {}, ...layers.map(asPainted)), width, height, { title: heading(chart) });
}

// A copy with colours inlined: style.css overrides the colour of some texts. Each line of text keeps its width on the page,
// whatever font the viewer has.
function asPainted(layer) {
  const copy = layer.cloneNode(true), texts = [...layer.querySelectorAll("text")];
  copy.querySelectorAll("text").forEach((text, i) => {
    text.style.fill = getComputedStyle(texts[i]).fill;
    const lines = linesOf(texts[i]);
    linesOf(text).forEach((line, j) => {
      const width = lines[j].getComputedTextLength();
      if (width) document.attnvizSave.set(line, { textLength: width, lengthAdjust: "spacingAndGlyphs" });
    });
  });
  return copy;
}

const linesOf = (text) => (text.querySelector("tspan.line") ? [...text.querySelectorAll("tspan.line")] : [text]);

export default function ({ data, parentElement }) {
  for (const button of parentElement.querySelectorAll("button")) {
    const kind = button.dataset.kind;
    button.textContent = kind.toUpperCase();
    button.onclick = () => {
      const chart = document.querySelector(`.st-key-${data.chart} .js-plotly-plot`);
      const { write, fileName } = document.attnvizSave;
      write(kind, chartPicture(chart), fileName(chart).replace("-chart-", "-"));
    };
  }
}

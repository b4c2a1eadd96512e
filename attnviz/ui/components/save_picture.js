// A plotly chart lies in the page as several SVGs, one over the other; joined on the page's background they are the picture.
function picture(chart) {
  const layers = [...chart.querySelectorAll("svg.main-svg")];
  const { width, height } = layers[0].getBoundingClientRect();
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const paper = document.createElementNS(svg.namespaceURI, "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", getComputedStyle(document.querySelector(".stApp")).backgroundColor);
  svg.append(paper, ...layers.map(asPainted));
  return { text: new XMLSerializer().serializeToString(svg), width, height };
}

// A copy that needs no style sheet: the page's own changes the colour of some texts.
function asPainted(layer) {
  const copy = layer.cloneNode(true), texts = layer.querySelectorAll("text");
  copy.querySelectorAll("text").forEach((text, i) => { text.style.fill = getComputedStyle(texts[i]).fill; });
  return copy;
}

function save(url, name) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

function savePng({ text, width, height }, name) {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = 2 * width; // sharp on a projector
    canvas.height = 2 * height;
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    context.drawImage(image, 0, 0);
    save(canvas.toDataURL("image/png"), name);
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
}

export default function ({ data, parentElement }) {
  for (const button of parentElement.querySelectorAll("button")) {
    const kind = button.dataset.kind;
    button.textContent = kind.toUpperCase();
    button.onclick = () => {
      const drawn = picture(document.querySelector(`.st-key-${data.chart} .js-plotly-plot`));
      const name = `${data.name}.${kind}`;
      if (kind === "png") savePng(drawn, name);
      else save(URL.createObjectURL(new Blob([drawn.text], { type: "image/svg+xml" })), name);
    };
  }
}

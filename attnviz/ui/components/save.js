// Export of pictures. Converts a component's DOM, shape by shape, to a standalone SVG: with the theme's background, the title
// above, and the KV heads' hues and the link to the settings below. The PNG is that SVG at twice the size. copy_link loads this
// once per page; all components use it as document.attnvizSave. The argument `about` has
//   title: text above; "" if the component has its own title, undefined to use the page's heading
//   legend: [[colour, name], …]; unsaved: a selector for elements to leave out, such as controls
//   stage: called before the DOM is read, to draw everything at high resolution; returns a function that undoes it
const saving = (() => {
  const SVG = "http://www.w3.org/2000/svg", MARGIN = 16, SCALE = 2, NARROWEST = 360;
  const FONT = "sans-serif"; // a standalone SVG lacks the page's fonts: measure with a generic one
  const STYLE = ["font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "stroke-width", "stroke-dasharray",
    "stroke-linecap", "opacity", "vector-effect", "overflow"];
  const probe = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  let numbered = 0; // ids of gradients and clip paths

  const component = (kind, root, about) => write(kind, picture(root, about), fileName(root));

  // ---- the file

  function fileName(root) {
    const page = location.pathname.split("/").at(-1).replaceAll("_", "-") || "overview", host = root.getRootNode().host ?? root;
    const part = host.closest("[class*=st-key-]")?.className.match(/st-key-([\w-]+)/)[1] ?? "picture";
    const shown = new URLSearchParams(location.search).get("model") ?? saving.usualModel;
    return ["attnviz", page, part, shown].join("-").replace(/[^\w-]/g, "");
  }

  function write(kind, svg, name) {
    const source = new XMLSerializer().serializeToString(svg), size = [svg.getAttribute("width"), svg.getAttribute("height")];
    const url = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
    if (kind === "svg") return download(url, `${name}.svg`);
    const image = new Image();
    image.onload = () => {
      const canvas = Object.assign(document.createElement("canvas"), { width: SCALE * size[0], height: SCALE * size[1] });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(url);
      canvas.toBlob((blob) => download(URL.createObjectURL(blob), `${name}.png`));
    };
    image.src = url;
  }

  function download(url, name) {
    Object.assign(document.createElement("a"), { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }

  // ---- the sheet: title, picture, legend, link

  function picture(root, { title, legend, unsaved, stage }) {
    const back = stage?.(), hidden = [...root.querySelectorAll(`.save${unsaved ? `, ${unsaved}` : ""}`)];
    const shown = hidden.map((each) => each.style.display);
    hidden.forEach((each) => (each.style.display = "none"));
    const zoom = zoomOf(root), box = inOwnPixels(root.getBoundingClientRect(), zoom), body = node("g", {}, ...drawn(root, { left: box.left, top: box.top, zoom }, Infinity));
    hidden.forEach((each, i) => (each.style.display = shown[i]));
    back?.();
    return sheet(root, body, Math.max(box.width, root.scrollWidth), box.height, { title: title ?? heading(root), legend });
  }

  function sheet(root, body, wide, high, { title = "", legend = [] }) {
    const { color } = getComputedStyle(root), width = Math.ceil(Math.max(wide, NARROWEST));
    let y = MARGIN;
    const rows = (texts, size, look) => texts.map((text) => {
      y += 1.3 * size;
      return node("text", { x: MARGIN, y: y - 0.3 * size, "font-family": FONT, "font-size": size, ...paint("fill", color), ...look }, text);
    });
    const bold = { "font-weight": 600 }, above = rows(wrapped(title, width, `600 16px ${FONT}`), 16, bold);
    y += above.length ? 8 : 0;
    body.setAttribute("transform", `translate(${MARGIN} ${y})`);
    y += high + 12;
    const below = hues(legend, width, y, color);
    y += below.height;
    const source = node("a", { href: location.href }, ...rows(wrapped(location.href, width, `10px ${FONT}`), 10, { opacity: 0.75 }));
    const all = { width: width + 2 * MARGIN, height: Math.ceil(y + MARGIN) };
    const page = node("rect", { ...all, ...paint("fill", getComputedStyle(document.querySelector(".stApp")).backgroundColor) });
    return node("svg", { xmlns: SVG, ...all, viewBox: `0 0 ${all.width} ${all.height}` }, page, ...above, body, ...below.shapes, source);
  }

  function hues(legend, width, top, color) {
    let x = 0, y = top;
    const shapes = legend.flatMap(([hue, name]) => {
      const room = 18 + measured(name, `12px ${FONT}`).width;
      if (x && x + room > width) [x, y] = [0, y + 18];
      const at = MARGIN + x;
      x += room + 16;
      return [node("rect", { x: at, y, width: 12, height: 12, rx: 2, ...paint("fill", hue) }),
        node("text", { x: at + 18, y: y + 10.5, "font-family": FONT, "font-size": 12, ...paint("fill", color) }, name)];
    });
    return { shapes, height: legend.length ? y + 24 - top : 0 };
  }

  // The page heading above the component.
  function heading(root) {
    const host = root.getRootNode().host ?? root, above = (each) => each.compareDocumentPosition(host) & Node.DOCUMENT_POSITION_FOLLOWING;
    return [...document.querySelectorAll("[data-testid=stMain] :is(h1, h2, h3)")].filter(above).at(-1)?.textContent.trim() ?? "";
  }

  // Wraps text to the width; a word without spaces, such as a link, is broken anywhere.
  function wrapped(text, width, font) {
    const fits = (line) => measured(line, font).width <= width, lines = [];
    for (const word of text.split(/\s+/).filter(Boolean)) {
      const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
      if (fits(longer)) { lines.splice(-1, 1, longer); continue; }
      lines.push("");
      for (const c of word) fits(lines.at(-1) + c) ? (lines[lines.length - 1] += c) : lines.push(c);
    }
    return lines.filter(Boolean);
  }

  // ---- the DOM, shape by shape, in its own pixels: in full screen it is zoomed

  // origin: left and top of the picture, and its zoom
  function drawn(element, origin, right) {
    const style = getComputedStyle(element), box = inOwnPixels(element.getBoundingClientRect(), origin.zoom);
    if (style.display === "none" || style.visibility === "hidden" || style.opacity === "0") return [];
    const at = { x: box.left - origin.left, y: box.top - origin.top, width: box.width, height: box.height };
    if (element.localName === "svg") return [asPainted(element, at)];
    if (element.localName === "canvas") return [...frames(style, at), canvas(element, at)];
    const end = style.textOverflow === "ellipsis" ? Math.min(right, box.right) : right;
    const inside = [...element.childNodes].flatMap((child) =>
      child.nodeType === Node.TEXT_NODE ? written(child, style, origin, end) : child.nodeType === Node.ELEMENT_NODE ? drawn(child, origin, end) : []);
    const all = [...frames(style, at), ...surface(style, at), ...(isScrolled(element, style) ? clipped(inside, at) : inside)];
    return all.length && style.opacity < 1 ? [node("g", { opacity: style.opacity }, ...all)] : all;
  }

  const isScrolled = (element, { overflowX, overflowY }) =>
    (overflowY !== "visible" && element.scrollHeight > element.clientHeight + 1) || (overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1);

  function clipped(shapes, at) {
    const id = `clip-${++numbered}`;
    return [node("clipPath", { id }, node("rect", at)), node("g", { "clip-path": `url(#${id})` }, ...shapes)];
  }

  // A canvas becomes an image, unless it can draw itself as shapes.
  function canvas(element, at) {
    if (element.shapes) return node("g", { transform: `translate(${at.x} ${at.y})` }, ...element.shapes(pen()));
    return node("image", { ...at, href: element.toDataURL() });
  }

  // Shadows without blur or offset, the narrowest first: rings around what is selected.
  function frames({ boxShadow, borderTopLeftRadius }, box) {
    let inner = 0;
    return [...boxShadow.matchAll(/((?:rgba?|color)\([^)]*\)) 0px 0px 0px ([\d.]+)px/g)].map(([, colour, outer]) => {
      const shape = ring(box, inner, +outer, parseFloat(borderTopLeftRadius) || 0, colour);
      inner = +outer;
      return shape;
    });
  }

  // A frame from `inner` to `outer` pixels outside of a box.
  function ring({ x, y, width, height }, inner, outer, radius, colour) {
    const by = (inner + outer) / 2;
    return node("rect", {
      x: x - by, y: y - by, width: width + 2 * by, height: height + 2 * by, rx: Math.max(0, radius + by), fill: "none", "stroke-width": outer - inner, ...paint("stroke", colour),
    });
  }

  // Background, gradient to the right, borders, outline.
  function surface(style, box) {
    const { x, y, width, height } = box;
    const out = [], plain = paint("fill", style.backgroundColor), rx = parseFloat(style.borderTopLeftRadius) || 0;
    if (plain["fill-opacity"] > 0) out.push(node("rect", { x, y, width, height, rx, ...plain }));
    if (style.backgroundImage.startsWith("linear-gradient")) {
      const id = `gradient-${++numbered}`;
      out.push(node("linearGradient", { id }, ...stops(style.backgroundImage)), node("rect", { x, y, width, height, rx, fill: `url(#${id})` }));
    }
    for (const [side, fromX, fromY, wide, high] of [["Top", 0, 0, 1, 0], ["Bottom", 0, 1, 1, 0], ["Left", 0, 0, 0, 1], ["Right", 1, 0, 0, 1]]) {
      const thick = parseFloat(style[`border${side}Width`]), colour = paint("fill", style[`border${side}Color`]);
      if (!thick || !colour["fill-opacity"]) continue;
      out.push(node("rect", { x: x + fromX * (width - thick), y: y + fromY * (height - thick), width: wide ? width : thick, height: high ? height : thick, ...colour }));
    }
    const gap = parseFloat(style.outlineOffset);
    return style.outlineStyle === "none" ? out : [...out, ring(box, gap, gap + parseFloat(style.outlineWidth), rx, style.outlineColor)];
  }

  function stops(image) {
    const found = [...image.matchAll(/((?:rgba?|color)\([^)]*\))((?:\s+[\d.]+%)*)/g)].map(([, colour, places]) => [colour, places.match(/[\d.]+%/g)]);
    return found.flatMap(([colour, places], i) =>
      (places ?? [`${(100 * i) / Math.max(1, found.length - 1)}%`]).map((offset) => node("stop", { offset, ...paint("stop", colour, "stop-color") })));
  }

  // Text with the page's line breaks, each line scaled to its width on the page, whatever font the viewer has.
  function written(text, style, origin, right) {
    const range = document.createRange(), lines = [];
    const { fontStyle, fontWeight, fontSize, fontFamily } = style;
    for (let i = 0; i < text.length; i++) {
      range.setStart(text, i);
      range.setEnd(text, i + 1);
      const [found] = range.getClientRects(), box = found && inOwnPixels(found, origin.zoom), line = lines.at(-1), c = text.data[i];
      if (!box || (!box.width && !c.trim()) || line?.cut) continue;
      const same = line && Math.abs(line.top - box.top) < 2;
      if (!same && !c.trim()) continue;
      if (same && box.right > right + 1) Object.assign(line, { text: line.text.trimEnd().slice(0, -1) + "…", cut: true });
      else if (same) Object.assign(line, { text: line.text + c, left: Math.min(line.left, box.left), right: c.trim() ? Math.max(line.right, box.right) : line.right });
      else lines.push({ text: c, left: box.left, right: box.right, top: box.top });
    }
    const { fontBoundingBoxAscent } = measured("x", `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`);
    return lines.map((line) => node("text", {
      x: line.left - origin.left, y: line.top - origin.top + fontBoundingBoxAscent, textLength: line.right - line.left, lengthAdjust: "spacingAndGlyphs",
      "font-family": fontFamily, "font-size": fontSize, "font-weight": fontWeight, ...paint("fill", style.color),
    }, line.text.trimEnd()));
  }

  // A copy of an SVG with computed styles inlined.
  function asPainted(svg, at) {
    const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((each, i) => {
      const style = getComputedStyle(from[i]), styles = Object.fromEntries(STYLE.map((name) => [name, style.getPropertyValue(name)]));
      for (const name of ["class", "style", "tabindex", "role"]) each.removeAttribute(name);
      set(each, { ...styles, ...paint("fill", style.fill), ...paint("stroke", style.stroke) });
    });
    return set(copy, at);
  }

  // ---- helpers

  // A colour in a notation that every SVG viewer supports; CSS has more.
  function paint(what, colour, name = what) {
    if (!colour || colour === "none" || colour.startsWith("url(")) return { [name]: colour || "none" };
    probe.clearRect(0, 0, 1, 1);
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [r, g, b, alpha] = probe.getImageData(0, 0, 1, 1).data;
    return { [name]: `rgb(${r}, ${g}, ${b})`, [`${what}-opacity`]: +(alpha / 255).toFixed(3) };
  }

  function measured(text, font) {
    probe.font = font;
    return probe.measureText(text);
  }

  function node(tag, attributes, ...children) {
    const made = set(document.createElementNS(SVG, tag), attributes);
    made.append(...children.map((child) => (typeof child === "string" ? printable(child) : child)));
    return made;
  }

  function set(element, attributes) {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  // XML allows neither control characters nor lone surrogates.
  const printable = (text) => text.replace(/[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "\uFFFD");

  // A stand-in for a canvas context that records curves as SVG paths.
  function pen() {
    const shapes = [];
    let d = "";
    return {
      shapes,
      beginPath: () => (d = ""),
      moveTo: (x, y) => (d += `M${x} ${y}`),
      bezierCurveTo: (...at) => (d += `C${at.join(" ")}`),
      stroke() {
        shapes.push(node("path", { d, fill: "none", "stroke-width": this.lineWidth, opacity: this.globalAlpha, ...paint("stroke", this.strokeStyle) }));
      },
    };
  }

  return { component, write, sheet, heading, fileName, node, set };
})();


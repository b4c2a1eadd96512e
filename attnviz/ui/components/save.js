// Export of pictures. Converts a component's DOM, shape by shape, to a standalone SVG: with the theme's background, the title
// above, and the KV heads' hues and, if chosen, the link to the settings below. The PNG is that SVG, drawn larger. copy_link loads
// this once per page; all components use it as document.attnvizSave. The argument `about` has
//   title: text above; "" if the component has its own title, undefined to use the page's heading
//   legend: [[colour, name], …]; unsaved: a selector for elements to leave out, such as controls
//   stage: called with the pixels per unit before the DOM is read, to draw everything sharply; returns a function that undoes it
import { inOwnPixels, zoomOf } from "./call.js";
import { unfolded } from "./folded.js";
import { isHosted, saveAs, savedAs, savingMenu, scaleOf } from "./save_file.js";
import { background, headings } from "../../server/page.js";

export const saving = (() => {
  const SVG = "http://www.w3.org/2000/svg", MARGIN = 16, NARROWEST = 360;
  const WIDTH = 800; // pixels: every picture is laid out at this width, at which 12-pixel type is as large as 14 points on a slide
  const STYLE = ["font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "stroke-width", "stroke-dasharray",
    "stroke-linecap", "opacity", "vector-effect", "overflow"];
  const probe = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  let numbered = 0, free = Promise.resolve(); // ids of gradients and clip paths; resolves when no picture is being laid out

  const component = (kind, root, about) => saveAs(kind, root, picture(root, about));

  // ---- the sheet: title, picture, legend, link

  async function picture(root, about) {
    const back = await atWidth(root.getRootNode().host ?? root, root, WIDTH);
    try {
      return drawnPicture(root, about());
    } finally {
      back();
    }
  }

  function drawnPicture(root, { title = heading(root), legend, unsaved, stage }) {
    const fold = unfolded(root), texts = writtenInCanvases(root), unstage = stage?.(scaleOf(WIDTH + 2 * MARGIN));
    texts.end();
    const hidden = [...root.querySelectorAll(`.save, summary${unsaved ? `, ${unsaved}` : ""}`)];
    const shown = hidden.map((each) => each.style.display);
    hidden.forEach((each) => (each.style.display = "none"));
    const zoom = zoomOf(root), box = inOwnPixels(root.getBoundingClientRect(), zoom), wide = Math.max(box.width, root.scrollWidth);
    const body = node("g", {}, ...drawn(root, { left: box.left, top: box.top, zoom }, Infinity));
    hidden.forEach((each, i) => (each.style.display = shown[i]));
    unstage?.();
    fold();
    return { svg: sheet(root, body, wide, box.height, { title, legend }), title: title || root.querySelector("h2, h3")?.textContent || "" };
  }

  // Lays out an element at this width, in a box on the page that keeps its size; resolves to a function that undoes it. One at a
  // time: the same element may be saved twice at once.
  async function atWidth(box, element, width) {
    if (element.matches(":fullscreen")) return () => {};
    const before = free;
    let leave;
    free = new Promise((done) => (leave = done));
    await before;
    const [outside, inside] = [box, element].map((each) => each.getAttribute("style") ?? "");
    box.style.cssText = `${outside}; height: ${getComputedStyle(box).height}; overflow: hidden`;
    element.style.cssText = `${element === box ? box.style.cssText : inside}; width: ${width}px; max-width: none`;
    await stillness(element);
    return () => {
      element.setAttribute("style", inside);
      box.setAttribute("style", outside);
      leave();
    };
  }

  // Components redraw themselves after a change of their size.
  async function stillness(element) {
    const now = () => [element.scrollWidth, element.scrollHeight, ...[...element.querySelectorAll("canvas")].map((each) => each.style.cssText)].join();
    for (let still = 0, shape = "", i = 0; still < 3 && i < 30; i++) {
      await new Promise((done) => setTimeout(() => requestAnimationFrame(done), 20));
      still = shape === now() ? still + 1 : 0;
      shape = now();
    }
  }

  // Records what is written in canvases, to keep it as text.
  function writtenInCanvases(root) {
    const pens = [...root.querySelectorAll("canvas")].map((each) => each.getContext("2d"));
    for (const pen of pens) {
      const { canvas } = pen;
      canvas.texts = [];
      pen.fillText = (text, x, y, most = Infinity) => {
        const { font, fillStyle, textAlign, textBaseline } = pen, { width, fontBoundingBoxAscent } = pen.measureText(text);
        pen.textBaseline = "alphabetic";
        const down = pen.measureText(text).fontBoundingBoxAscent - fontBoundingBoxAscent;
        pen.textBaseline = textBaseline;
        canvas.texts.push({ text, x, y: y + (Math.abs(down) > 0 ? down : 0), width: Math.min(width, most), font, fillStyle, textAlign, at: pen.getTransform() });
      };
    }
    return { end: () => { for (const pen of pens) delete pen.fillText; } };
  }

  function sheet(root, body, wide, high, { title = "", legend = [], note = "" }) {
    const { color, fontFamily } = getComputedStyle(root), { link, transparent } = savedAs(), width = Math.ceil(Math.max(wide, NARROWEST));
    let y = MARGIN;
    const rows = (texts, size, look) => texts.map((text) => {
      y += 1.3 * size;
      return node("text", { x: MARGIN, y: y - 0.3 * size, "font-family": fontFamily, "font-size": size, ...paint("fill", color), ...look }, text);
    });
    const bold = { "font-weight": 600 }, above = rows(wrapped(title, width, `600 18px ${fontFamily}`), 18, bold);
    y += above.length ? 8 : 0;
    body.setAttribute("transform", `translate(${MARGIN} ${y})`);
    y += high + 12;
    const below = hues(legend, width, y, { color, fontFamily });
    y += below.height;
    const notes = note ? rows(wrapped(note, width, `12px ${fontFamily}`), 12, { opacity: 0.85 }) : [];
    const address = link ? [node("a", { href: location.href }, ...rows(wrapped(location.href, width, `11px ${fontFamily}`), 11, { opacity: 0.75 }))] : [];
    const all = { width: width + 2 * MARGIN, height: Math.ceil(y + MARGIN) };
    const page = transparent ? [] : [node("rect", { ...all, ...paint("fill", background()) })];
    return node("svg", { xmlns: SVG, ...all, viewBox: `0 0 ${all.width} ${all.height}` }, ...page, ...above, body, ...below.shapes, ...notes, ...address);
  }

  function hues(legend, width, top, { color, fontFamily }) {
    let x = 0, y = top;
    const shapes = legend.flatMap(([hue, name]) => {
      const room = 18 + measured(name, `13px ${fontFamily}`).width;
      if (x && x + room > width) [x, y] = [0, y + 18];
      const at = MARGIN + x;
      x += room + 16;
      return [node("rect", { x: at, y, width: 12, height: 12, rx: 2, ...paint("fill", hue) }),
        node("text", { x: at + 18, y: y + 10.5, "font-family": fontFamily, "font-size": 13, ...paint("fill", color) }, name)];
    });
    return { shapes, height: legend.length ? y + 24 - top : 0 };
  }

  // The page heading above the component.
  function heading(root) {
    const host = root.getRootNode().host ?? root, above = (each) => each.compareDocumentPosition(host) & Node.DOCUMENT_POSITION_FOLLOWING;
    return headings().filter(above).at(-1)?.textContent.trim() ?? "";
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
    return node("g", {}, node("image", { ...at, href: element.toDataURL() }), ...writings(element, at));
  }

  function writings({ texts = [], width }, at) {
    const units = at.width / width, anchor = { right: "end", end: "end", center: "middle" };
    return texts.map(({ text, x, y, width: textLength, font, fillStyle, textAlign, at: { a, b, c, d, e, f } }) => {
      const [, weight, size, family] = font.match(/^(.*?)\s*([\d.]+px) (.+)$/), matrix = [a, b, c, d].map((each) => each * units);
      return node("text", {
        x, y, textLength, lengthAdjust: "spacingAndGlyphs", transform: `matrix(${matrix} ${e * units + at.x} ${f * units + at.y})`, "font-family": family, "font-size": size,
        "text-anchor": anchor[textAlign] ?? "start", ...(weight && { "font-weight": weight }), ...paint("fill", fillStyle),
      }, text);
    });
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
    const out = [], seen = !(savedAs().transparent && style.backgroundColor === background()), plain = paint("fill", style.backgroundColor), rx = parseFloat(style.borderTopLeftRadius) || 0;
    if (seen && plain["fill-opacity"] > 0) out.push(node("rect", { x, y, width, height, rx, ...plain }));
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

  return { component, saveAs, sheet, heading, atWidth, node, set, menu: savingMenu, isHosted, savedAs, WIDTH };
})();


// The file of a saved picture: its name, fonts and pixels, and the user's choices, which the tab remembers.
import { el } from "./call.js";

const PNG_WIDTH = 1600, MAX_AREA = 64e6; // pixels: minimal width, for a slide; canvases are limited by browsers

// ---- what the user chose

const CHOICES = "attnviz-saving", SHOWN = "attnviz-saving-changed";

// Hosts that only this computer or its network can open: names without a dot, reserved names, private and literal IPv6 addresses.
const LOCAL = /^(127|10|0|169\.254|192\.168|172\.(1[6-9]|2\d|3[01]))\.[\d.]+$|^\[|^[^.]*$|\.(localhost|local|lan|home|internal|test|invalid)$/;

export const isHosted = (host = location.hostname) => !LOCAL.test(host);

export function savedAs() {
  const { link = true, transparent = false } = chosen();
  return { link: link && document.attnvizSave.isHosted(), transparent };
}

let untilClosed = {};

function chosen() {
  try { return JSON.parse(sessionStorage.getItem(CHOICES) ?? "{}"); } catch { return untilClosed; } // a notebook's frame may not store
}

function chooseSaved(name, value) {
  const now = { ...chosen(), [name]: value };
  untilClosed = now;
  try { sessionStorage.setItem(CHOICES, JSON.stringify(now)); } catch { /* as in chosen */ }
  document.dispatchEvent(new CustomEvent(SHOWN));
}

// The choices, to be shown behind a button.
export function savingMenu() {
  const box = el("span", "choices"), { link, transparent } = savedAs(), hosted = document.attnvizSave.isHosted();
  const add = (name, checked, text, disabled = false) => {
    const label = el("label", ""), input = Object.assign(el("input", ""), { type: "checkbox", checked, disabled });
    input.onchange = () => chooseSaved(name, input.checked);
    label.append(input, text);
    box.append(label);
  };
  add("transparent", transparent, "Transparent background");
  if (!document.attnvizSave.alone) add("link", link, hosted ? "Link to this view" : "Link to this view (left out: this address is local)", !hosted);
  return box;
}

// ---- its name

// "attnviz-heads-head-view-gqa-2-layer-2-head-5": page, drawing, model, and the beginning of the title.
function savedName(root, title) {
  const page = document.attnvizSave.alone ? "" : location.pathname.split("/").at(-1).replaceAll("_", "-") || "overview", host = root.getRootNode().host ?? root;
  const part = host.closest("[class*=st-key-]")?.className.match(/st-key-([\w-]+)/)[1] ?? "picture";
  const model = new URLSearchParams(location.search).get("model") ?? document.attnvizSave.usualModel;
  const name = model.split("/").filter(Boolean).at(-1); // of a folder or hub id, as on the page
  return ["attnviz", page, part.replace(/^chart-/, ""), name, inWords(title)].filter(Boolean).join("-").replace(/[^\p{L}\p{N}_-]/gu, "");
}

// The title's first words in a file's name, without a rest that is cut within a word.
function inWords(title) {
  const words = title.toLowerCase().match(/[\p{L}\p{N}]+(?:[.,]\d+)*/gu) ?? [];
  let name = "";
  for (const word of words) {
    if (name.length + word.length > 40) break;
    name += `${name && "-"}${word.replace(/[.,]/g, "_")}`;
  }
  return name;
}

// ---- the file

// Saves as "svg" or "png", or copies the pixels. drawing: resolves to {svg, title}. A browser allows a copy only during the
// click, so the clipboard gets a promise at once.
export async function saveAs(kind, root, drawing) {
  if (kind === "copy") return navigator.clipboard.write([new ClipboardItem({ "image/png": drawing.then(({ svg }) => pngOf(svg)) })]);
  const { svg, title } = await drawing, file = kind === "png" ? await pngOf(svg) : new Blob([await sourceOf(svg)], { type: "image/svg+xml" });
  const href = URL.createObjectURL(file);
  Object.assign(document.createElement("a"), { href, download: `${savedName(root, title)}.${kind}` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

// Pixels per unit of a picture of this width.
export const scaleOf = (width, height = 0) => Math.min(Math.max(2, PNG_WIDTH / width), Math.sqrt(MAX_AREA / Math.max(1, width * height)));

async function pngOf(svg) {
  const [width, height] = ["width", "height"].map((side) => +svg.getAttribute(side)), scale = scaleOf(width, height), large = svg.cloneNode(true);
  const canvas = Object.assign(document.createElement("canvas"), { width: Math.ceil(scale * width), height: Math.ceil(scale * height) });
  large.setAttribute("width", canvas.width); // else a browser may enlarge the pixels of its first size
  large.setAttribute("height", canvas.height);
  const image = new Image(), href = URL.createObjectURL(new Blob([await sourceOf(large)], { type: "image/svg+xml" }));
  image.src = href;
  await image.decode();
  const ink = canvas.getContext("2d");
  ink.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(href);
  return new Promise((done) => canvas.toBlob(done));
}

// The SVG as text, with the fonts it names: a file has none of the page's.
async function sourceOf(svg) {
  const faces = await Promise.all(facesOf(svg).map(embedded));
  if (faces.length) {
    const style = document.createElementNS(svg.namespaceURI, "style");
    style.textContent = faces.join("\n");
    svg.prepend(style);
  }
  return new XMLSerializer().serializeToString(svg);
}

// The page's @font-face rules for the families in use, upright; the browser slants one where needed.
function facesOf(svg) {
  const used = new Set([...svg.querySelectorAll("[font-family], [style*=font-family]")].map((each) => firstFamily(each.getAttribute("font-family") || each.style.fontFamily)));
  const rules = [...document.styleSheets].flatMap((sheet) => { try { return [...sheet.cssRules]; } catch { return []; } });
  return rules.filter((rule) => rule instanceof CSSFontFaceRule && used.has(firstFamily(rule.style.fontFamily)) && !/italic|oblique/.test(rule.style.fontStyle));
}

const firstFamily = (families = "") => families.split(",")[0].replace(/["']/g, "").trim();

const fonts = {}; // URL: promise of it as data

async function embedded({ style, parentStyleSheet }) {
  const url = new URL(style.src.match(/url\(["']?([^"')]+)/)[1], parentStyleSheet.href ?? document.baseURI).href;
  const data = await (fonts[url] ??= asData(url));
  return `@font-face { font-family: "${firstFamily(style.fontFamily)}"; font-weight: ${style.fontWeight || "normal"}; src: url(${data}) format("woff2"); }`;
}

async function asData(url) {
  const reader = new FileReader(), blob = await (await fetch(url)).blob();
  return new Promise((done) => {
    reader.onload = () => done(`data:font/woff2;base64,${reader.result.split(",")[1]}`);
    reader.readAsDataURL(blob);
  });
}

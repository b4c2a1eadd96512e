// Streamlit calls a component again for each change, on the same elements, and may clean up an earlier call after a later one
// has begun. So each call has its own abort signal for its listeners: `const call = begun(root)`, `return call.end`.
import { bottom } from "../../server/page.js";

export function begun(root) {
  root.call?.abort();
  const call = (root.call = new AbortController());
  return { signal: call.signal, end: () => call.abort() };
}

// A payload of JSON.
export const jsonOf = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

export const el = (tag, name, text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });

// A colour of page_style.css, for a canvas, which knows no variables.
export const pageColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

// The height available to a presented drawing, in its own (zoomed) pixels; Infinity outside presentation mode.
export function slideHeight(element) {
  return parseFloat(getComputedStyle(element).getPropertyValue("--slide-height")) || Infinity;
}

// The zoom factor of an element, window pixels per element pixel: above 1 while presenting and in full screen. Pointer positions are in
// window pixels, an element's own width is not. WebKit has no currentCSSZoom.
export function zoomOf(element) {
  if (element.currentCSSZoom) return element.currentCSSZoom;
  let zoom = 1;
  for (let at = element; at; at = at.parentElement ?? at.getRootNode().host) zoom *= +getComputedStyle(at).zoom || 1;
  return zoom;
}

// The bounding box of an element in window pixels. WebKit measures in the element's own.
export function boxOf(element, zoom = zoomOf(element)) {
  const box = element.getBoundingClientRect();
  return zoom === 1 || measuredInWindow() ? box : scaled(box, zoom);
}

// A box that the browser measured, of an element or of a text in it, in pixels of that element.
export const inOwnPixels = (box, zoom) => (zoom === 1 || !measuredInWindow() ? box : scaled(box, 1 / zoom));

const scaled = ({ x, y, width, height }, by) => new DOMRect(by * x, by * y, by * width, by * height);

// Whether the browser measures boxes in window pixels, asked once per page of an element that is zoomed.
function measuredInWindow() {
  if (document.attnvizMeasured === undefined) {
    const probe = document.body.appendChild(el("div", ""));
    probe.style.cssText = "position: fixed; zoom: 2; width: 8px";
    document.attnvizMeasured = probe.getBoundingClientRect().width > 12;
    probe.remove();
  }
  return document.attnvizMeasured;
}

// The box of the bar at the bottom of the window. Empty where there is none: between two pages it is gone.
export function barBox() {
  const bar = bottom();
  return bar ? boxOf(bar) : new DOMRect();
}

// The pointer's place on an element, in pixels of the element.
export function pointOn(element, { clientX, clientY }) {
  const zoom = zoomOf(element), { left, top } = boxOf(element, zoom);
  return [(clientX - left) / zoom, (clientY - top) / zoom];
}

export const clamp = (x, low, high) => Math.max(low, Math.min(high, x));

// The smallest of 1, 2, 5, 10, 20, … that is at least so large; of smaller numbers likewise 0.1, 0.2, 0.5.
export function roundStep(least) {
  const size = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * size).find((n) => n >= least);
}

// The elements of a component by their class.
export const partsOf = (root, names) => Object.fromEntries(names.map((name) => [name, root.querySelector(`.${name}`)]));

// The key of a component on the page.
export const keyOf = (root) => root.getRootNode().host.closest("[class*=st-key-]").className.match(/st-key-([\w-]+)/)[1];

// Keys: one that presses a button, and one that is the browser's own, with a modifier.
export const presses = (e) => e.key === "Enter" || e.key === " ";
export const isBrowsers = (e) => e.ctrlKey || e.altKey || e.metaKey;

// Whether moving pictures are unwelcome.
export const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Pixels above an element that is scrolled to: on a phone, the header covers what is above it.
export const above = () => (matchMedia("(max-width: 768px)").matches ? 66 : 12);

// Calls this when the user does something that scrolls, or may; also where a component handles it alone.
export function whenUsed(act, signal) {
  for (const each of ["wheel", "touchmove", "pointerdown", "keydown"]) document.addEventListener(each, act, { signal, passive: true, capture: true });
}

// Fingers do not hover, and have no keys.
export const TOUCH = matchMedia("(hover: none)").matches, POINT = TOUCH ? "Tap" : "Point at";

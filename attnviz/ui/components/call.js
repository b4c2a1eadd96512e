// Streamlit calls a component again for each change, on the same elements, and may clean up an earlier call after a later one
// has begun. So each call has its own abort signal for its listeners: `const call = begun(root)`, `return call.end`.
function begun(root) {
  root.call?.abort();
  const call = (root.call = new AbortController());
  return { signal: call.signal, end: () => call.abort() };
}

const el = (tag, name, text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });

// A colour of style.css, for a canvas, which knows no variables.
const pageColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

// The height available to a presented drawing, in its own (zoomed) pixels; Infinity outside presentation mode.
function slideHeight(element) {
  return parseFloat(getComputedStyle(element).getPropertyValue("--slide-height")) || Infinity;
}

// The zoom factor of an element, window pixels per element pixel: above 1 while presenting. Bounding boxes and pointer positions
// are in window pixels, an element's own width is not.
function zoomOf(element) {
  return element.currentCSSZoom ?? 1;
}

// Fingers do not hover, and have no keys.
const TOUCH = matchMedia("(hover: none)").matches, POINT = TOUCH ? "Tap" : "Point at";

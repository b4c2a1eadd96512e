// Streamlit calls a component anew for each change, on the same elements, and may end an earlier call after a later one has
// begun. So what a call has to end, it starts with a signal of its own: `const call = begun(root)`, `return call.end`.
function begun(root) {
  root.call?.abort();
  const call = (root.call = new AbortController());
  return { signal: call.signal, end: () => call.abort() };
}


// The height that a presented drawing has for all of itself, in its own pixels; without end where it stands on its page.
function slideHeight(element) {
  return parseFloat(getComputedStyle(element).getPropertyValue("--slide-height")) || Infinity;
}

// How many pixels of the window there are to one of an element: more than 1 where it is presented. Boxes and pointers are told in
// those of the window, widths of elements in their own.
function zoomOf(element) {
  return element.currentCSSZoom ?? 1;
}

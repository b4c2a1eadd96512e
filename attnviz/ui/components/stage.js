// Presenting: zooms the drawing until it fills the window over the bar, with type at least TYPE times as large where it fits;
// rings the pointer; B makes the screen black. What a clicker sends, Page Up and Page Down, goes on and back.
const TYPE = 1.4, LARGEST = 4, TRIES = 7, RING = 56;

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { signal } = call, { target } = JSON.parse(new TextDecoder().decode(data));
  const sheet = document.createElement("style"), ring = layer("ring"), black = layer("black");
  black.setAttribute("role", "img");
  black.setAttribute("aria-label", "The screen is black. Press B to show it again.");
  black.hidden = true;
  document.head.append(sheet);
  const fit = fitting(sheet, target, signal);
  window.addEventListener("resize", fit, { signal });
  document.addEventListener("pointermove", (e) => ringAt(ring, e), { signal });
  document.addEventListener("keydown", (e) => key(e, black), { signal });
  fit();
  signal.addEventListener("abort", () => { for (const each of [sheet, ring, black]) each.remove(); });
  return call.end;
}

function layer(name) {
  const box = document.createElement("div"), ring = name === "ring";
  box.className = `attnviz-${name}`;
  Object.assign(box.style, ring
    ? { position: "fixed", zIndex: 1e6, width: `${RING}px`, height: `${RING}px`, margin: `-${RING / 2}px`, borderRadius: "50%", border: "4px solid light-dark(#b3541e, #f0a36b)", pointerEvents: "none", left: "-999px" }
    : { position: "fixed", zIndex: 1e6 + 1, inset: 0, background: "#000" });
  document.body.append(box);
  return box;
}

function ringAt(ring, e) {
  if (e.pointerType === "touch" && !e.isPrimary) return;
  Object.assign(ring.style, { left: `${e.clientX}px`, top: `${e.clientY}px` });
}

const written = (e) => e.composedPath()[0]?.matches?.("input, textarea, select, [contenteditable=true]");

function key(e, black) {
  if (written(e) || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "b" || e.key === "B") black.hidden = !black.hidden;
  const lesson = document.querySelector(".st-key-lesson-tools"), names = lesson ? ["lesson-back", "lesson-next"] : ["present-previous", "present-following"];
  const name = names[["PageUp", "PageDown"].indexOf(e.key)];
  if (name) document.querySelector(`.st-key-${name} button`)?.click();
  if (name) e.preventDefault();
}

// Some drawings are as high as they are wide, others have a height of their own: so the width is tried until both fit.
function fitting(sheet, target, signal) {
  let turn = 0, seen = "";
  const rule = (zoom, width) => {
    sheet.textContent = `.${target} { zoom: ${zoom}; width: ${width}px !important; max-width: none !important; margin-inline: auto; align-self: center; }`;
  };
  const room = () => {
    const bar = document.querySelector("[data-testid=stBottom]")?.getBoundingClientRect();
    return [window.innerWidth - 32, (bar?.height ? bar.top : window.innerHeight) - 24];
  };
  const tried = (element, zoom, width, left) => {
    const [, high] = room(), share = element.getBoundingClientRect().height / high;
    if (signal.aborted || !left || (share > 0.94 && share <= 1)) return;
    const wide = room()[0];
    if (share > 1) width > 380 && element.dataset.fixed !== "1" ? (width = Math.max(380, width / share ** 0.8)) : (zoom = Math.max(1, zoom / share));
    else { zoom = Math.min(LARGEST, zoom / share ** 0.6); width = Math.min(width, wide / zoom); }
    rule(zoom, width);
    setTimeout(() => tried(element, zoom, width, left - 1), 120);
  };
  const start = () => {
    const element = target && document.querySelector(`.${target}`), mine = ++turn;
    if (signal.aborted) return;
    if (!element || element.getBoundingClientRect().height < 20) return void (target && setTimeout(() => mine === turn && start(), 120));
    const zoom = TYPE, width = room()[0] / zoom, now = `${window.innerWidth} ${window.innerHeight}`;
    if (seen === now && sheet.textContent) return;
    seen = now;
    rule(zoom, width);
    setTimeout(() => tried(element, zoom, width, TRIES), 150);
  };
  return start;
}

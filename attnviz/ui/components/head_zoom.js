// Zoom of the head grid: from all heads down to single cells, by wheel, pinch, keys and buttons.
import { boxOf, el, slideHeight, TOUCH, zoomOf } from "./call.js";

const CELL = 24; // maximal pixels per cell
export const STEP = 1.5; // factor per press

export function zoomButtons(view) {
  const line = el("span", "zoom"), add = (text, name, press) => {
    const button = Object.assign(el("button", "", text), { type: "button", title: name, onclick: press });
    button.setAttribute("aria-label", name);
    line.append(button);
  };
  add("−", "Zoom out", () => zoomTo(view, view.zoom / STEP));
  add("+", "Zoom in", () => zoomTo(view, view.zoom * STEP));
  add("Fit", "Fit all heads", () => zoomTo(view, 1));
  view.level = el("output", "");
  line.append(view.level);
  return line;
}

// Ctrl + wheel (browsers report a touchpad pinch as this) and two fingers zoom; the wheel alone and one finger scroll.
export function zooming(view) {
  const { scroll, grid } = view;
  let start = null, due = false;
  const between = ([a, b]) => [(a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2];
  const spread = ([a, b]) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  scroll.addEventListener("wheel", (e) => {
    if (!view.zooms || !(e.ctrlKey || e.metaKey)) return void (view.hold = null);
    e.preventDefault();
    const turned = Math.max(-25, Math.min(25, e.deltaMode ? 8 * e.deltaY : e.deltaY));
    zoomTo(view, view.zoom * Math.exp(-turned / 100), e.clientX, e.clientY);
  }, { passive: false });
  grid.addEventListener("touchstart", ({ touches }) => {
    view.hold = null;
    start = view.zooms && touches.length === 2 ? { spread: spread(touches), zoom: view.zoom, at: held(view, ...between(touches)) } : null;
  }, { passive: true });
  grid.addEventListener("touchmove", (e) => {
    if (!start || e.touches.length !== 2) return;
    e.preventDefault();
    zoomTo(view, (start.zoom * spread(e.touches)) / start.spread, ...between(e.touches), start.at);
  }, { passive: false });
  scroll.addEventListener("scroll", () => {
    if (view.zoom === 1 || due) return;
    due = true;
    requestAnimationFrame(() => { due = false; view.paint(); });
  });
}

// Of a zoomed grid only the visible part is painted.
export function inSight({ scroll }, zoom) {
  const box = boxOf(scroll, zoom);
  return new DOMRect(box.left, box.top, scroll.clientWidth * zoom, scroll.clientHeight * zoom);
}

// Zooms around the point (x, y) of the window; without one, centres the hovered or selected head.
export function zoomTo(view, level, x, y, at = held(view, x, y)) {
  const { scroll, d } = view;
  if (view.zoom === 1) view.fit = { side: at.head.map.clientWidth, height: scroll.clientHeight };
  const most = Math.max(1, (CELL * Math.max(d.shape[2], d.shape[3])) / view.fit.side);
  level = level < 1.01 ? 1 : Math.min(most, level);
  if (level === view.zoom) return;
  view.zoom = level;
  widths(view);
  const zoom = zoomOf(scroll), seen = inSight(view, zoom), box = boxOf(at.head.map, zoom);
  scroll.scrollLeft += (box.left + at.across * box.width - (x ?? seen.left + seen.width / 2)) / zoom;
  scroll.scrollTop += (box.top + at.down * box.height - (y ?? seen.top + seen.height / 2)) / zoom;
  view.paint();
}

// The head under (x, y), and the position in its map; unchanged while the pointer rests, since at an edge the grid cannot follow.
function held(view, x, y) {
  const { d, cell, hold } = view;
  if (x === undefined) {
    const [q, k] = cell ?? [(d.shape[2] - 1) / 2, (d.shape[3] - 1) / 2];
    return { head: view.at, across: (k + 0.5) / d.shape[3], down: (q + 0.5) / d.shape[2] };
  }
  if (hold && view.heads.includes(hold.head) && Math.hypot(x - hold.x, y - hold.y) < 4) return hold;
  const head = headNear(view, x, y), box = boxOf(head.map);
  return (view.hold = { x, y, head, across: (x - box.left) / box.width, down: (y - box.top) / box.height });
}

function headNear({ heads, grid }, x, y) {
  const zoom = zoomOf(grid), off = (p, from, to) => Math.max(from - p, 0, p - to);
  const distance = ({ map }) => { const b = boxOf(map, zoom); return Math.hypot(off(x, b.left, b.right), off(y, b.top, b.bottom)); };
  return heads.map((head) => [distance(head), head]).reduce((a, b) => (b[0] < a[0] ? b : a))[1];
}

export const inRows = (view) => view.show === "layers" || view.show === "overview";

const LARGE = 72; // pixels: width of a map from which its name is shown
const SMALL = { name: 52, short: 28, gap: 2, most: 64, height: TOUCH ? 1100 : 640 }; // pixels, of the overview: a layer's name, maps, all

// The columns of layers for which the overview's maps are largest within its width and height, and their width.
function overviewOf({ root, scroll, d }) {
  const L = d.layers, H = d.shape[1], width = scroll.clientWidth - 8, name = width < 620 ? SMALL.short : SMALL.name;
  const slide = slideHeight(root), height = root.matches(":fullscreen") ? slide - 110 : Math.min(SMALL.height, Math.max(240, slide - 110));
  const side = (n) => Math.min((width / n - name) / H, height / Math.ceil(L / n)) - SMALL.gap;
  const columns = [1, 2, 3, 4].filter((n) => n <= L).reduce((best, n) => (side(n) > side(best) + 1 ? n : best));
  return { columns, side: Math.max(12, Math.min(root.matches(":fullscreen") ? Infinity : SMALL.most, Math.floor(side(columns)))) };
}

export const columnsOf = (view) => (view.show === "overview" ? overviewOf(view).columns : 1);

const USUAL = 170, CAPTION = 28, BRACKET = 32; // pixels: widest map; heights of a map's name and of the line of KV heads, with gaps

// The widest map, in full screen that with which all rows fill the height.
function filling({ root, scroll, d, lines }) {
  if (!root.matches(":fullscreen")) return USUAL;
  const others = [...root.children].reduce((sum, each) => sum + (each === scroll ? 0 : each.offsetHeight + 6), 28);
  const height = innerHeight / zoomOf(root) - others - lines * BRACKET;
  return Math.max(48, Math.floor(height / (d.layers * lines) - CAPTION));
}

// Column widths: all maps fit, or follow the zoom; a zoomed grid scrolls within its unzoomed height.
export function widths(view) {
  const { grid, scroll, zoom, d } = view, H = Math.ceil(d.shape[1] / view.lines), side = zoom > 1 ? Math.round(view.fit.side * zoom) : 0;
  const overview = view.show === "overview", small = overview && side < LARGE, fixed = side && `${side}px`;
  const usual = overview ? `minmax(7px, ${overviewOf(view).side}px)` : `minmax(24px, ${filling(view)}px)`;
  const least = overview ? view.columns * (32 + 9 * H) : 28 + 27 * H; // minimal width for touch targets and names
  grid.classList.toggle("flow", !inRows(view));
  grid.classList.toggle("small", small);
  scroll.classList.toggle("zoomed", !!side);
  const layers = Array(view.columns).fill(`max-content repeat(${H}, ${fixed || usual})`).join(" ");
  grid.style.gridTemplateColumns = inRows(view) ? layers : `repeat(auto-fill, ${fixed || "minmax(112px, 1fr)"})`;
  grid.style.minWidth = inRows(view) && !side ? `${least}px` : "";
  scroll.style.height = side ? `clamp(320px, ${view.fit.height}px, 80vh)` : "";
  if (view.level) view.level.textContent = side ? `Zoom ${zoom.toFixed(1)} ×` : "";
}

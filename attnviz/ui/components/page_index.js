// Lists the page's drawings as links once the page is longer than two screens, or the headings of one without drawings, and offers a way
// back to these links and the first drawing where that is out of sight above: an arrow in the margin, which covers nothing, and its name when pointed at. Which there are is read from the page: a tab is drawn again without this component.
import { above, barBox, begun, boxOf, el, isCalm, jsonOf, partsOf } from "./call.js";
import { bottom, headings, main, mainBlock } from "../../server/page.js";

const LONG = 2; // screens
const NEAR = 0.6; // of a screen: a drawing that begins so near below the links is in sight with them, and one so near below a heading is its
const TABS = ".st-key-control-group, .st-key-control-tab";

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { sections } = jsonOf(data), { index, back } = partsOf(parentElement, ["index", "back"]);
  let written = "", shown = [], asked = 0, bar = null;
  const refresh = () => {
    asked = 0;
    if (!main()) return; // between two pages
    const long = main().scrollHeight > LONG * window.innerHeight;
    shown = !long ? [] : sections.length ? sectionsShown(sections) : headingsShown();
    index.hidden = shown.length < 2;
    const names = shown.map(({ name }) => name).join("\n");
    if (names !== written) index.replaceChildren(el("span", "", "On this page:"), ...shown.map(({ name }, i) => link(name, () => { const { element } = shown[i]; to(element, beginningOf(element, shown)); })));
    written = names;
    const first = shown.length > 1 ? shown.find(({ name }) => name === sections[0]?.[1]) ?? shown[0] : null;
    back.hidden = !first || boxOf(first.element).bottom > above();
    const near = first && boxOf(first.element).top - boxOf(index).top < NEAR * window.innerHeight;
    const name = !first ? "" : near ? `Back to the first ${sections.length ? "drawing" : "section"}: ${first.name}` : "Back to the top of the page";
    if (first && back.ariaLabel !== name) {
      back.ariaLabel = name;
      back.replaceChildren(el("span", "", "↑"), el("span", "name", name));
    }
    back.style.setProperty("--bar", `${barHeight()}px`);
    back.style.setProperty("--scrollbar", `${scrollbarWidth()}px`);
    if (bar !== bottom() && (bar = bottom())) grown.observe(bar);
    back.onclick = () => to(near ? first.element : index, headings()[0]);
  };
  const later = () => { asked ||= requestAnimationFrame(refresh); };
  const grown = new ResizeObserver(later);
  const blocks = mainBlock();
  if (blocks) grown.observe(blocks);
  addEventListener("resize", later, { signal: call.signal });
  document.addEventListener("scroll", later, { signal: call.signal, capture: true, passive: true });
  call.signal.addEventListener("abort", () => { grown.disconnect(); cancelAnimationFrame(asked); });
  refresh();
  return call.end;
}

// How high the bar of a lesson or route is. One beside the page, while presenting, covers nothing at the bottom.
function barHeight() {
  const { top, height } = barBox();
  return height && top > 0 ? Math.max(0, window.innerHeight - top) : 0;
}

// How far the page's scroll bar reaches into the window: the way back stands beside it.
function scrollbarWidth() {
  return Math.max(0, window.innerWidth - boxOf(main()).left - main().clientWidth);
}

// Those that the page shows now, from top to bottom, with its tabs unless they are above all of them.
function sectionsShown(sections) {
  const found = sections.map(([name, title]) => ({ element: document.querySelector(`.${name}`), name: title }));
  const drawn = found.filter(({ element }) => element && boxOf(element).height > 20);
  const tabs = document.querySelector(TABS), name = tabs?.querySelector("[role=radiogroup]")?.getAttribute("aria-label");
  if (name && drawn.some(({ element }) => boxOf(element).top < boxOf(tabs).top)) drawn.push({ element: tabs, name });
  return drawn.sort((a, b) => boxOf(a.element).top - boxOf(b.element).top || boxOf(a.element).left - boxOf(b.element).left);
}

// The headings below the title, each up to its first comma or colon.
function headingsShown() {
  const below = headings().filter((each) => each.localName === "h2" && boxOf(each).height > 0);
  return below.map((element) => ({ element, name: element.textContent.trim().split(/[,:] /)[0] }));
}

function link(name, go) {
  const a = Object.assign(el("a", "", name), { href: "#" });
  a.addEventListener("click", (e) => { e.preventDefault(); go(); });
  return a;
}

// The highest heading above a drawing with at most its own controls and text between them; the drawing itself where there is none.
function beginningOf(element, shown) {
  const follows = (a, b) => a.compareDocumentPosition(b) === Node.DOCUMENT_POSITION_FOLLOWING, box = boxOf(element);
  const leadsTo = (heading) => {
    const { left, right, top } = boxOf(heading), below = box.top - top;
    const another = shown.some((each) => follows(heading, each.element) && follows(each.element, element));
    return follows(heading, element) && !another && left < box.right && right > box.left && below >= 0 && below < NEAR * window.innerHeight;
  };
  return headings().find((each) => each.localName !== "h1" && leadsTo(each)) ?? element;
}

// Scrolls to where it begins, and moves the focus to it: the next press of Tab goes on in it.
function to(element, beginning) {
  main().scrollBy({ top: boxOf(beginning).top - above(), behavior: isCalm() ? "auto" : "smooth" });
  element.tabIndex = -1;
  element.style.outline = "none";
  element.focus({ preventScroll: true });
}

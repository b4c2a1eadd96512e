// Opens and folds the calculations below charts, which are Streamlit's expanders, as this browser remembers them and as a lesson asks.
// Opened as by a click, since React keeps its own state beside the element's, but without the movement. It runs from each page's HTML
// (server/page_style.py), to be there before them, and without it they are folded when a page opens. Observed in Streamlit 1.67.
import { foldOf, whenPointedElsewhere } from "./folded.js";

const CALCULATION = "[class*=st-key-calculation-]", KEY = /st-key-calculation-([\w-]+)/;
const foldOfExpander = (details) => foldOf(details.closest(CALCULATION).className.match(KEY)[1]);
const isOpen = (details) => !details.lastElementChild.inert; // React's state; its contents follow
let isOwn = false, isPlanned = false;

function put(details) {
  const { open } = foldOfExpander(details);
  if (isOpen(details) === open) return;
  isOwn = true;
  details.firstElementChild.click();
  isOwn = false;
  for (const each of details.getAnimations()) each.finish();
  requestAnimationFrame(() => { details.open = isOpen(details); }); // an effect that React had put off may have closed the element alone
}

function putAll() {
  isPlanned = false;
  document.querySelectorAll(`${CALCULATION} details`).forEach(put);
}

// After what React does next, which sets a new expander to what the server said.
function plan() {
  if (!isPlanned) setTimeout(putAll);
  isPlanned = true;
}

const hasCalculation = (node) => node.matches?.(`${CALCULATION}, ${CALCULATION} *`) || node.querySelector?.(CALCULATION);
const isRelevant = ({ type, target, addedNodes }) => (type === "attributes" ? target.matches(CALCULATION) : [...addedNodes].some(hasCalculation));
new MutationObserver((records) => { if (records.some(isRelevant)) plan(); })
  .observe(document.body, { childList: true, subtree: true, attributeFilter: ["class"] }); // React gives one element another chart's class
document.addEventListener("click", ({ target }) => {
  const details = !isOwn && target.closest?.(`${CALCULATION} summary`)?.parentElement;
  if (details) foldOfExpander(details).remember(!isOpen(details));
}, { capture: true });
whenPointedElsewhere(plan);
plan();

// Hides touches from plotly's charts. Without it: a finger on a chart does not scroll the page, since plotly takes each touch for
// a zoom (tests/browser/test_workarounds.py). Reported in 2018; observed in Streamlit 1.67. Can be removed when plotly leaves one
// finger to the page. Taps still reach a chart, as mouse clicks. Upstream: plotly.js #2844.
import { CHART } from "./page.js";

const hide = (event) => event.target.closest?.(CHART) && event.stopPropagation();
document.addEventListener("touchstart", hide, { capture: true, passive: true });

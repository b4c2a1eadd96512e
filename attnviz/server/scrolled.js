// Marks the page while it is scrolled, in a browser without scroll-driven animations, such as Firefox. Without it: what the page has
// scrolled shows through the header, which page_style.css hides or backs then (tests/browser/test_engines.py). Streamlit's header lies
// above the page; observed in 1.67. Can be removed when all browsers have such animations. No upstream issue.
import { main } from "./page.js";

const SCROLLED = 24; // pixels

const mark = ({ target }) => target === main() && document.documentElement.classList.toggle("scrolled", target.scrollTop > SCROLLED);
if (!CSS.supports("animation-timeline: scroll()")) document.addEventListener("scroll", mark, { capture: true, passive: true });

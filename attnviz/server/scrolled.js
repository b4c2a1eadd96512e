// Marks the page while it is scrolled, in a browser without scroll-driven animations: style.css then hides the menu, or on a phone
// puts the strip behind it. Without it: in Firefox, the menu stays on a drawing's corner (tests/browser/test_engines.py). Relies on
// Streamlit's name of the element that scrolls; observed in 1.67. Can be removed when Firefox has `animation-timeline: scroll()`.
const FROM = 24; // pixels
const mark = ({ target }) => target.matches?.("[data-testid=stMain]") && document.documentElement.classList.toggle("scrolled", target.scrollTop > FROM);
if (!CSS.supports("animation-timeline: scroll()")) document.addEventListener("scroll", mark, { capture: true, passive: true });

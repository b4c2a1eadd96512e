// Marks the page while it is scrolled, in a browser without scroll-driven animations, such as Firefox: style.css then hides the menu,
// or on a phone puts the strip behind it.
const SCROLLED = 24; // pixels

function markScrolled(signal) {
  if (CSS.supports("animation-timeline: scroll()")) return;
  const mark = ({ target }) => target.matches?.("[data-testid=stMain]") && document.documentElement.classList.toggle("scrolled", target.scrollTop > SCROLLED);
  document.addEventListener("scroll", mark, { capture: true, passive: true, signal });
}

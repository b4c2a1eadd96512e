// Lets a text that was typed and not applied go along to the page whose link is tapped. Streamlit's field sends its value when it
// loses focus, but only once React has rendered it again, and a link is followed at once: with less than about 10 ms between press
// and click, as on a touchpad or a phone, the text would come after the page was left, and be dropped.
const SENT_AFTER = 60; // milliseconds from the loss of focus; measured: 12

function sendTypedFirst(signal) {
  let left = -Infinity;
  const onLeave = ({ target }) => { if (target.matches?.("textarea, input")) left = performance.now(); };
  const onClick = (event) => {
    const link = event.target.closest?.("[data-testid=stPageLink-NavLink]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || performance.now() - left > SENT_AFTER) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    left = -Infinity;
    setTimeout(() => link.click(), SENT_AFTER);
  };
  document.addEventListener("focusout", onLeave, { signal });
  document.addEventListener("click", onClick, { capture: true, signal });
}

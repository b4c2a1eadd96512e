// Lets a letter press its button while an answer, a switch or a slider has the focus. Without it: once an answer was chosen with the mouse,
// the letters on the buttons do nothing (tests/browser/test_workarounds.py): Streamlit ignores shortcuts in inputs of any type, not only
// where one types. Observed in Streamlit 1.67. Can be removed when it ignores them in fields of text only. No upstream issue.
const WITHOUT_TEXT = "input:is([type=radio], [type=checkbox], [type=range])";

const again = (event) => {
  const { type, key, code, keyCode, shiftKey, ctrlKey, altKey, metaKey } = event;
  if (key?.length !== 1 || key === " " || ctrlKey || altKey || metaKey || !event.composedPath()[0].matches?.(WITHOUT_TEXT)) return;
  document.body.dispatchEvent(new KeyboardEvent(type, { key, code, keyCode, which: keyCode, shiftKey, bubbles: true }));
};
for (const type of ["keydown", "keyup"]) document.addEventListener(type, again, { capture: true });

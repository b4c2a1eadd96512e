// Tells components whether a run is over. Without it: a link copied within a moment of typing lacks the text (tests/browser/
// test_frame.py). Streamlit says so on its own element; observed in 1.67. May go when components can ask. No upstream issue.
const OVER = "[data-test-script-state=notRunning]";
document.attnvizIdle = () => document.querySelector(OVER) !== null;

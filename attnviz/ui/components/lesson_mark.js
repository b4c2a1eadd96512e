// Marks the element that the step of a lesson points at, scrolls to it once it is drawn, and says the step in a live region. The
// mark is a rule of a style sheet: a class would be gone with the next thing that Streamlit draws there.
const PATIENCE = 20000; // milliseconds that a drawing may take until the bar says that it is not there

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { said, target, name, step } = JSON.parse(new TextDecoder().decode(data));
  const [look, status] = [".look", ".said"].map((each) => parentElement.querySelector(each));
  const sheet = document.createElement("style");
  if (status.textContent !== said) status.textContent = said;
  look.textContent = "";
  if (target) {
    sheet.textContent = `.${target} { outline: 3px solid light-dark(#b3541e, #f0a36b); outline-offset: 5px; border-radius: 6px; scroll-margin: 12px; }`;
    document.head.append(sheet);
    if (step && document.attnvizStep !== step) arrive(call.signal, target, step, look, name);
  }
  if (!target || document.attnvizStep !== step) document.attnvizStep = ""; // whoever comes back is brought to it again
  call.signal.addEventListener("abort", () => sheet.remove());
  return call.end;
}

// Scrolls when the element stands still: what is drawn above it moves it down.
function arrive(signal, target, step, look, name) {
  const began = performance.now();
  let last = null, still = 0;
  const turn = () => {
    if (signal.aborted) return;
    const element = document.querySelector(`.${target}`), box = element?.getBoundingClientRect(), ready = box && box.height > 20;
    still = ready && last !== null && Math.abs(box.top - last) < 1 && !document.querySelector("[data-test-script-state=running]") ? still + 1 : 0;
    last = ready ? box.top : null;
    if (still > 3) {
      document.attnvizStep = step;
      const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
      const room = (document.querySelector("[data-testid=stBottom]") ?? look).getBoundingClientRect().top;
      if (box.top < 0 || box.bottom > room) element.scrollIntoView({ block: box.height < room ? "nearest" : "start", behavior: calm ? "auto" : "smooth" });
      return;
    }
    if (performance.now() - began > PATIENCE && !ready) return void (look.textContent = `“${name}” is not drawn with these settings.`);
    setTimeout(turn, 60);
  };
  turn();
}

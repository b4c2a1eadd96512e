// Outlines the element of a lesson step, scrolls to it once it is drawn, and announces the step in a live region. The outline
// is a style sheet rule: Streamlit would remove a class with its next rerun.
const TIMEOUT = 20000; // milliseconds after which the bar reports that the element is not drawn

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { announcement, target, name, step } = JSON.parse(new TextDecoder().decode(data));
  const [look, status] = [".look", ".said"].map((each) => parentElement.querySelector(each));
  const sheet = document.createElement("style");
  if (status.textContent !== announcement) status.textContent = announcement;
  look.textContent = "";
  if (target) {
    sheet.textContent = `.${target} { outline: 3px solid light-dark(#b3541e, #f0a36b); outline-offset: 5px; border-radius: 6px; scroll-margin: 12px; }`;
    document.head.append(sheet);
    if (step && document.attnvizStep !== step) arrive(call.signal, target, step, look, name);
  }
  if (!target || document.attnvizStep !== step) document.attnvizStep = ""; // scroll again when the user returns to the step
  call.signal.addEventListener("abort", () => sheet.remove());
  return call.end;
}

// Scrolls once the element's position is stable: elements drawn above it move it down.
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
    if (performance.now() - began > TIMEOUT && !ready) return void (look.textContent = `“${name}” is not drawn with these settings.`);
    setTimeout(turn, 60);
  };
  turn();
}

// Outlines the element of a lesson's step or a route's item, keeps it above the bar until everything is drawn, and announces the step in a
// live region; brings an answer that has just been shown to sight, where the text scrolls. The outline is a style sheet rule: Streamlit would remove a class with its next rerun.
import { begun, boxOf, isBrowsers, jsonOf, whenUsed, zoomOf } from "./call.js";
import { bottom, isIdle } from "../../server/page.js";
import { pointAt } from "./folded.js";
import { focusInSight } from "./focus_in_sight.js";
import { away, toSight } from "./sight.js";

const TIMEOUT = 20000; // milliseconds after which the bar reports that the element is not drawn
const WATCHED = 2500; // milliseconds for which the element is kept in sight: a drawing above it may still grow
const TURN = 60, STILL = 4, AGAIN = 10; // milliseconds between looks; looks without movement after which a position is final; and further
// ones after which scrolling is repeated, without animation: a page that is busy drawing can cancel a smooth one
const MODIFIERS = ["Shift", "Control", "Alt", "Meta", "AltGraph"];

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { label, announcement, target, name, step, left, answered } = jsonOf(data);
  const [look, status] = [".look", ".status"].map((each) => parentElement.querySelector(each));
  const sheet = document.createElement("style"), place = left ? `${step}, left` : step, here = document.attnvizStep;
  const arrived = here === place || here === step; // a step left by a change of settings is not scrolled to again
  landmark(label);
  focusInSight(call.signal);
  pointAt(target);
  if (status.textContent !== announcement) status.textContent = announcement;
  if (answered && parentElement.answered !== step) setTimeout(showAnswer, TURN);
  parentElement.answered = answered ? step : "";
  look.textContent = "";
  if (target) {
    sheet.textContent = `.${target} { outline: 3px solid var(--lesson); outline-offset: 5px; border-radius: 6px; }`;
    document.head.append(sheet);
    if (!arrived) arrive(call.signal, target, place, look, name);
  }
  document.attnvizStep = arrived || !target ? place : ""; // from another place, returning to the step scrolls again
  if (target && !arrived) keepFocus(call.signal);
  call.signal.addEventListener("abort", () => sheet.remove());
  return () => {
    if (!call.signal.aborted) pointAt(""); // no later call has begun: the lesson was left
    call.end();
  };
}

const bar = () => document.querySelector(".st-key-lesson-bar, .st-key-route-bar");

function landmark(label) {
  bar()?.setAttribute("role", "region");
  bar()?.setAttribute("aria-label", label);
}

function showAnswer() {
  const answer = document.querySelector(".st-key-lesson-question"), text = answer?.closest(".st-key-lesson-text");
  if (!text) return;
  for (const scroller of [text, bottom()].filter(Boolean)) { // the text, or the bar beside a presented drawing; none on the list of lessons, or once it is left
    scroller.scrollTop += (boxOf(answer).top - boxOf(scroller).top) / zoomOf(scroller);
  }
}

// The button that led here may be gone with its page: the step's text then has the focus, not the document.
function keepFocus(signal) {
  const text = document.querySelector(".st-key-lesson-text");
  if (text) text.tabIndex = -1;
  setTimeout(() => {
    if (!signal.aborted && document.activeElement === document.body) text?.focus({ preventScroll: true });
  }, TURN);
}

// A letter is a shortcut of the bar's; any other key scrolls, or moves what has the focus.
const isLetter = (e) => MODIFIERS.includes(e.key) || (e.key?.length === 1 && e.key !== " " && !isBrowsers(e));

// Scrolls as soon as the element has its place, though the run still draws others, and again whenever it has come to rest out of sight,
// until nothing has moved for a while or the user does something. In the bar a pointer does not: what it shows there makes the bar higher.
function arrive(signal, target, place, look, name) {
  const began = performance.now(), watch = new AbortController(), until = AbortSignal.any([signal, watch.signal]);
  const stop = (e) => {
    if (e.type === "keydown" ? isLetter(e) : bar()?.contains(e.target)) return;
    document.attnvizStep = place;
    watch.abort();
  };
  whenUsed(stop, until);
  let last = null, still = 0, moved = began, gone = false;
  const turn = () => {
    if (until.aborted) return;
    const element = document.querySelector(`.${target}`), box = element && boxOf(element), now = performance.now();
    const drawn = box?.height > 20, runs = !isIdle();
    const placed = drawn && last !== null && Math.abs(box.top - last) < 1;
    still = placed && !runs ? still + 1 : 0;
    last = drawn ? box.top : null;
    if (!still) moved = now;
    if (placed && !gone) toSight(box, runs); // what is being drawn cancels a smooth one
    else if (still % AGAIN === STILL) toSight(box, still > STILL);
    gone ||= placed;
    const late = now - began > TIMEOUT, seen = drawn && Math.abs(away(box)) <= 1; // not seen: the page below it is still too short to scroll
    if (now - moved > WATCHED && (seen || late)) return void (document.attnvizStep = place);
    if (late && !drawn) return void (look.textContent = `“${name}” is not drawn with these settings.`);
    setTimeout(turn, TURN);
  };
  turn();
}

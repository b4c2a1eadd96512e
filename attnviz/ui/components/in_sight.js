// What an action has made appear can lie below the window or under the bar at its bottom: it is brought to sight, unless the user scrolls.
import { begun, boxOf, jsonOf, whenUsed } from "./call.js";
import { isIdle, isOutdated } from "../../server/page.js";
import { toSight } from "./sight.js";

const TURN = 60, STILL = 3, AT_MOST = 10_000; // milliseconds between looks; looks without movement before it scrolls; milliseconds in all

export default function ({ data, parentElement }) {
  const call = begun(parentElement), { key, place, shown, opens } = jsonOf(data), began = performance.now();
  const watch = new AbortController(), until = AbortSignal.any([call.signal, watch.signal]);
  const known = (document.attnvizInSight ??= {}); // of the document: a component can be mounted again for the same data
  const end = () => {
    known[key] = place;
    watch.abort();
  };
  if ((known[key] === undefined && !opens) || !shown.length) end(); // what a page opens with, or nothing to see
  if (known[key] === place) return call.end;
  whenUsed(end, until);
  let last = null, still = 0;
  const turn = () => {
    if (until.aborted) return;
    if (performance.now() - began > AT_MOST) return end();
    const elements = shown.map((each) => document.querySelector(each)).filter(Boolean), box = around(elements);
    const ready = box && isIdle() && !elements.some(isOutdated);
    still = ready && last && Math.abs(box.top - last.top) < 1 && Math.abs(box.height - last.height) < 1 ? still + 1 : 0;
    last = ready ? box : null;
    if (still < STILL) return setTimeout(turn, TURN);
    toSight(box);
    end();
  };
  turn();
  return call.end;
}

// The box of all of them, from the first to the last; null if there is none.
function around(elements) {
  const boxes = elements.map((each) => boxOf(each)), top = Math.min(...boxes.map((box) => box.top));
  return boxes.length ? new DOMRect(boxes[0].left, top, boxes[0].width, Math.max(...boxes.map((box) => box.bottom)) - top) : null;
}

// Scrolls to the tabs of the page until all is drawn and nothing has moved for a while, or the user does something. Tabs in the first
// third of the window are seen without: there the page's title stays in sight.
import { above, begun, boxOf, whenUsed } from "./call.js";
import { isIdle, isPending, main } from "../../server/page.js";

const TURN = 80, STILL = 1500, AT_MOST = 20000; // milliseconds: between looks; without movement, after which it ends; in all

export default function ({ parentElement }) {
  const call = begun(parentElement), began = performance.now(), watch = new AbortController(), until = AbortSignal.any([call.signal, watch.signal]);
  const top = above();
  whenUsed(() => watch.abort(), until);
  let last = "", moved = began; // where the tabs were on the page, and how high that was; when either changed
  const turn = () => {
    const tabs = document.querySelector(".st-key-control-group, .st-key-control-tab");
    const place = tabs ? Math.round(boxOf(tabs).top + main().scrollTop) : null, layout = `${place} ${main().scrollHeight}`;
    if (until.aborted || performance.now() - moved > STILL || performance.now() - began > AT_MOST) return;
    const { scrollTop, clientHeight, scrollHeight } = main(), ends = scrollTop + clientHeight >= scrollHeight - 2;
    const to = place < clientHeight / 3 ? 0 : place - top, tooShort = ends && to > scrollTop + 2; // what makes the page longer is still to come
    if (place === null || tooShort || layout !== last || !isIdle() || isPending(main())) moved = performance.now();
    if (place !== null && layout !== last) main().scrollTo(0, to); // not when only something else has scrolled
    last = layout;
    setTimeout(turn, TURN);
  };
  turn();
  return call.end;
}

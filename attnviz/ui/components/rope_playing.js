// Shared by the RoPE components: number formats, and playback of a position. state: {position, shown, playing}.
import { isCalm } from "./call.js";

export const number = (x, digits = 3) => x.toLocaleString("en", { maximumSignificantDigits: digits });
export const signed = (x, decimals) => x.toFixed(decimals).replace("-", "−").replace(/^−(0\.?0*)$/, "$1");
export const degrees = (radians) => radians * 180 / Math.PI;

// Animates from 0 to `last` in a loop; with prefers-reduced-motion, in integer steps, one per second. Pausing stops at an
// integer position.
export function play(root, last, state, signal, paint) {
  const calm = isCalm();
  root.querySelector(".play").textContent = state.playing ? "❚❚ Pause" : "▶ Play";
  let before = performance.now();
  const frame = (now) => {
    if (!state.playing || signal.aborted) return; // a later call continues with its own data
    requestAnimationFrame(frame);
    if (now - before < 1000 / 30 - 4) return; // 30 frames per second are enough
    state.position += (now - before) / 1000 * (calm ? 1 : Number(root.querySelector(".speed").value));
    before = now;
    if (state.position >= last + 1) state.position = 0;
    const shown = calm ? Math.floor(state.position) : Math.min(state.position, last);
    if (shown === state.shown) return;
    state.shown = shown;
    paint();
  };
  if (state.playing) requestAnimationFrame(frame);
  else { state.position = state.shown = Math.floor(state.shown); paint(); }
}

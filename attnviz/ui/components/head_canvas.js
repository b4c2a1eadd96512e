// Shared by the canvases of one head: labels on the axes, and text drawing.
import { el, pageColour, roundStep } from "./call.js";
import { named, once, placeOf, short } from "./packed_weights.js";

const TEXT = 12, LINE = 15; // pixels: font size of the axis labels; line height
export const NEUTRAL = pageColour("--neutral"), FAINT = pageColour("--faint");

// The labels at these indices of an axis: {index: label}.
export function labelsOf(d, width, at) {
  const shown = new Set(at);
  return Object.fromEntries(at.map((i) => [i, `\u2068${short(once(d.labels[i], (way) => shown.has(i + way)), width < 420 ? 9 : 14)}\u2069\u2002${placeOf(d, i)}`]));
}
export const fontOf = (view) => `${TEXT}px ${getComputedStyle(view.root).fontFamily}`;
export const widest = (ink, ticks, names) => Math.ceil(8 + Math.max(...ticks.map((i) => ink.measureText(names[i]).width)));

// The indices of the labels that fit out of n: at round distances, and always the selected one.
export function ticks(n, room, looked) {
  const least = (n * LINE) / room, step = roundStep(Math.max(least, 1)), near = Math.ceil(least);
  const all = Array.from({ length: Math.ceil(n / step) }, (_, i) => i * step);
  return [...all.filter((i) => i === looked || Math.abs(i - looked) >= near), ...(all.includes(looked) ? [] : [looked])];
}

export function word(ink, text, x, y, colour) {
  ink.fillStyle = colour;
  ink.fillText(text, x, y);
}

export function upright(ink, text, x, y, align, colour) {
  ink.save();
  ink.translate(x, y);
  ink.rotate(-Math.PI / 2);
  ink.textAlign = align;
  word(ink, text, 0, 0, colour);
  ink.restore();
}

export const name = (d, i) => el("span", "", named(placeOf(d, i), d.labels[i]));

// Text colours of the canvas: a strong one for the selected token.
export function inks(note, title) {
  const [soft, strong] = [note, title].map((each) => getComputedStyle(each).color);
  return { soft, strong };
}

// Writes each text of the header into the element with that class.
export function writeTexts(view, texts) {
  for (const [name, text] of Object.entries(texts)) if (view[name]) view[name].textContent = text;
}

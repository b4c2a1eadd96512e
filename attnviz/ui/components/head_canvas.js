// What the canvases of one head share: labels on their axes, and what they are written with.

const TEXT = 12, LINE = 15; // pixels: labels on the axes, and the room that one takes across
const NEUTRAL = "#7d7d7d", FAINT = "rgba(128, 128, 128, 0.35)";

const labelsOf = (d, width) => d.labels.map((label, i) => `\u2068${short(label, width < 420 ? 9 : 14)}\u2069 ${i}`);
const fontOf = (view) => `${TEXT}px ${getComputedStyle(view.root).fontFamily}`;
const widest = (ink, ticks, names) => Math.ceil(8 + Math.max(...ticks.map((i) => ink.measureText(names[i]).width)));

// Which of n labels there is room for: at round distances, and always the selected one.
function ticks(n, room, looked) {
  const least = (n * LINE) / room, size = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = [1, 2, 5, 10].map((m) => m * size).find((m) => m >= least), near = Math.ceil(least);
  const all = Array.from({ length: Math.ceil(n / step) }, (_, i) => i * step);
  return [...all.filter((i) => i === looked || Math.abs(i - looked) >= near), ...(all.includes(looked) ? [] : [looked])];
}

function word(ink, text, x, y, colour) {
  ink.fillStyle = colour;
  ink.fillText(text, x, y);
}

function upright(ink, text, x, y, align, colour) {
  ink.save();
  ink.translate(x, y);
  ink.rotate(-Math.PI / 2);
  ink.textAlign = align;
  word(ink, text, 0, 0, colour);
  ink.restore();
}

const name = (d, i) => el("bdi", "", `${i} “${short(d.labels[i])}”`);

// What the canvas writes with: strong for the selected token.
function inks(note, title) {
  const [soft, strong] = [note, title].map((each) => getComputedStyle(each).color);
  return { soft, strong };
}

// Writes what a header says into the elements of its name.
function writeTexts(view, texts) {
  for (const [name, text] of Object.entries(texts)) if (view[name]) view[name].textContent = text;
}

// The weights of a run: read from the page, decompressed, and as codes with all digits that are printed (codes.py).
import { powerOfTen } from "../ui/components/packed_weights.js";

export const STEPS = 10_000; // cells of weight 1, or of the largest if that is above: what is drawn
const FINE = 4, N_FINE = 9000, N_COARSE = 900, CODES = 65536;

export async function bytesOf(text) {
  const packed = Uint8Array.fromBase64?.(text) ?? fromBase64(text);
  return new Uint8Array(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer());
}

function fromBase64(text) {
  const characters = atob(text), bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

// The codes of one kind of attention, which begin at this byte: the high bytes of all, then the low ones.
export function codesOf(bytes, start, n) {
  const codes = new Uint16Array(n);
  for (let i = 0; i < n; i++) codes[i] = (bytes[start + i] << 8) | bytes[start + n + i];
  return codes;
}

// The significant digits of a code as a whole number, their number, and the power of ten of the last one.
function digitsOf(code, top) {
  const fine = code <= FINE * N_FINE, i = fine ? code - 1 : code - 1 - FINE * N_FINE, n = fine ? N_FINE : N_COARSE;
  const decade = Math.floor(i / n) + (fine ? 0 : FINE), length = fine ? 4 : 3;
  return { digits: (i % n) + 10 ** (length - 1), length, power: top - decade - length + 1 };
}

// The nearest number to digits · 10^power: one division or product of whole numbers.
const times = (digits, power) => (power < 0 ? digits / 10 ** -power : digits * 10 ** power);

export function printedCode(code, top) {
  if (!code) return "0";
  const { digits, length, power } = digitsOf(code, top), value = times(digits, power);
  return value >= 0.001 && value < 10_000 ? value.toPrecision(length) : powerOfTen(value, length - 1);
}

// For each code its weight, and the cell that is drawn.
export function tablesOf(top, unit) {
  const values = new Float64Array(CODES), cells = new Uint16Array(CODES);
  for (let code = 1; code < CODES; code++) {
    const { digits, power } = digitsOf(code, top);
    values[code] = times(digits, power);
    cells[code] = Math.min(STEPS, Math.floor((values[code] / unit) * STEPS + 0.5));
  }
  return { values, cells };
}

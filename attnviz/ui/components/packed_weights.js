// What the components that show weights share: the message read back, labels and weights in words.

const el = (tag, name, text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });

const short = (label) => ([...label].length > 24 ? [...label].slice(0, 23).join("") + "…" : label);

function unpack(bytes) {
  const start = 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  const body = bytes.subarray(start), [L, H, N, M] = header.shape;
  if (!header.triangle) return { ...header, cells: body };
  const cells = new Uint8Array(L * H * N * M).fill(255);
  for (let from = 0, map = 0; map < L * H; map++)
    for (let q = 0; q < N; q++) {
      const n = Math.min(q + 1, M);
      cells.set(body.subarray(from, from + n), (map * N + q) * M);
      from += n;
    }
  return { ...header, cells };
}

const weightOf = (byte) => (byte === 255 ? 0 : (byte / 254) ** 2);

function weightText(byte) {
  if (byte === 255) return "not allowed";
  const w = weightOf(byte);
  return w < 0.001 ? "below 0.001" : w < 0.1 ? w.toPrecision(2) : w.toFixed(2);
}

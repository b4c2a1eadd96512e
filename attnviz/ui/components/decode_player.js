// A text that a model writes: played, stepped and taken back in the browser. Another candidate is asked of the server.

const MOST_COLUMN = 9, BAND = 4; // pixels: of a token in the caches at most; of a cached tensor of one head

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".dp");
  const view = (root.view ??= create(root)), call = begun(root);
  view.send = setTriggerValue;
  stop(view);
  update(view, data);
  call.signal.addEventListener("abort", () => stop(view));
  return call.end;
}

function create(root) {
  const view = { root, timer: 0, later: 0 };
  for (const name of ["text", "at", "next", "candidates", "how", "held", "caches", "sum", "legend", "maps", "maps-title"])
    view[name] = root.querySelector("." + name);
  view.rate = root.querySelector("select");
  root.querySelector(".tools").onclick = (e) => e.target.dataset.go && press(view, e.target.dataset.go);
  root.onkeydown = (e) => {
    const go = { ArrowLeft: "back", ArrowRight: "next", Home: "start", End: "end" }[e.key];
    if (go && !["SELECT", "INPUT"].includes(e.target.tagName)) { e.preventDefault(); press(view, go); }
  };
  view.some = root.querySelector("input");
  view.rate.onchange = () => { if (view.timer) { stop(view); play(view, view.until); } };
  new ResizeObserver(() => requestAnimationFrame(() => view.d && paintCaches(view))).observe(root);
  return view;
}

// ---- the message

function update(view, bytes) {
  const start = 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const d = (view.d = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start))));
  d.cells = new Uint16Array(bytes.slice(start).buffer);
  d.dark = isDark(view.root);
  d.T = d.prompt.length;
  d.H = d.marks.length;
  d.tables = d.ramps[d.dark ? "dark" : "light"].map((stops) => colours(stops, d.masked, d.scale));
  let from = d.H * d.before * d.T;
  d.from = d.steps.map((_, i) => { const at = from; from += d.H * (d.T + i); return at; });
  view.n = Math.min(d.at, d.steps.length);
  view.legend.textContent = d.legend;
  makeMaps(view);
  show(view);
  saveButtons(view.root, () => ({ title: "Decode", legend: hues(d), unsaved: ".tools, .how" }));
}

const hues = (d) => [...new Map(d.kvHeadOf.map((k, h) => [k, [d.marks[h], `KV ${k}`]])).values()];

// ---- stepping

function press(view, go) {
  if (go === "play" && !view.timer) return play(view);
  stop(view);
  const last = view.d.steps.length;
  if (go === "next" && view.n === last) return view.send("more", Date.now());
  if (go === "run") return play(view, view.n + Math.max(1, Math.trunc(view.some.value) || 1));
  if (go !== "play") to(view, { start: 0, back: view.n - 1, next: view.n + 1, end: last }[go]);
}

// until: how many tokens are written when it stops; by default all that were sent.
function play(view, until = Infinity) {
  view.until = Math.min(until, view.d.steps.length);
  const label = view.root.querySelector("[data-go=play]");
  label.textContent = "❚❚ pause";
  view.timer = setInterval(() => {
    if (view.n < view.until) to(view, view.n + 1);
    if (view.n >= view.until) stop(view);
  }, 1000 / view.rate.value);
}

function stop(view) {
  clearInterval(view.timer);
  view.timer = 0;
  view.root.querySelector("[data-go=play]").textContent = "▶ play";
}

function to(view, n) {
  view.n = Math.max(0, Math.min(n, view.d.steps.length));
  show(view);
  clearTimeout(view.later); // the address follows a moment after the last step
  view.later = setTimeout(() => !view.timer && view.send("at", view.n), 700);
  if (view.timer) view.later = setTimeout(() => view.send("at", view.n), 1500);
}

// ---- what is shown

function show(view) {
  const { d, n } = view, now = Math.min(n, d.steps.length - 1), step = d.steps[now], on = (go, yes) => (view.root.querySelector(`[data-go=${go}]`).disabled = !yes);
  writeText(view);
  for (const go of ["start", "back"]) on(go, n > 0);
  for (const go of ["end", "play", "run"]) on(go, n < d.steps.length);
  view.root.querySelector("[data-go=next]").textContent = n < d.steps.length ? "one token ▶" : "write more ▶";
  const before = n ? d.steps[n - 1] : null;
  view.at.textContent = before ? `${n} written, the last with probability ${before.p.toFixed(4)}` : "nothing written yet";
  const last = n > now ? "Written last" : "Next token";
  view.next.textContent = `${last}: ${step.candidates.length} candidates of the model, and what each filter leaves`;
  candidates(view, step, now);
  view.how.textContent = "Click a candidate to write it instead. In the text, a darker ground is a less probable token.";
  view.held.textContent = `The caches hold ${d.T + now} tokens`;
  view.sum.textContent = step.counted;
  paintCaches(view);
  paintMaps(view, now);
  view["maps-title"].textContent = `Layer ${d.layer}: the newest row is query ${d.T + now - 1}, “${short(labelAt(d, d.T + now - 1))}”`;
}

const labelAt = (d, i) => (i < d.T ? d.prompt[i] : d.words[d.steps[i - d.T].id]);
const plain = (label) => label.replaceAll("·", " ").replaceAll("⏎", "\n");

function writeText(view) {
  const { d, n, text } = view;
  const parts = [el("i", "", d.prompt.map(plain).join(""))];
  d.steps.slice(0, n).forEach((step, i) => {
    const piece = el("span", i === n - 1 ? "new last" : "new", plain(d.words[step.id]));
    piece.style.background = `color-mix(in srgb, var(--st-primary-color) ${Math.round(45 * (1 - step.p))}%, transparent)`; // the darker, the less expected
    piece.title = `probability ${step.p.toFixed(4)}`;
    parts.push(piece);
  });
  text.replaceChildren(...parts);
  text.scrollTop = text.scrollHeight;
}

function candidates(view, step, now) {
  const { d } = view, head = el("tr", "");
  head.append(el("th", "", "token"), ...step.stages.map(([name]) => el("th", "", name)));
  const rows = step.candidates.map((id, i) => {
    const row = el("tr", id === step.id ? "chosen" : ""), cell = el("td", ""), button = el("button", "", short(d.words[id], 12));
    button.type = "button";
    button.ariaLabel = `Write “${d.words[id]}” here`;
    button.onclick = () => { stop(view); view.send("choose", [now, id]); };
    cell.append(button);
    row.append(cell, ...step.stages.map(([, odds]) => shareOf(odds[i])));
    return row;
  });
  view.candidates.replaceChildren(head, ...rows);
}

function shareOf(p) {
  const cell = el("td", ""), share = el("div", "share"), bar = el("b", "");
  bar.style.width = `${100 * p}%`;
  share.append(bar, el("span", "", p ? p.toFixed(4) : "0"));
  cell.append(share);
  return cell;
}

// One column for each token and, for each layer, one band for each cached tensor of a head: heights to one scale.
function paintCaches(view) {
  const { d, n, caches } = view, now = Math.min(n, d.steps.length - 1), held = d.T + now, all = d.T + d.steps.length;
  const wide = caches.parentElement.clientWidth;
  if (!wide) return;
  const ratio = window.devicePixelRatio || 1, left = 24, column = Math.min(MOST_COLUMN, (wide - left) / all);
  const widths = d.parts.map(([, numbers]) => numbers), unit = Math.min(BAND / Math.min(...widths), 40 / widths.reduce((a, b) => a + b)), gap = 6;
  const layer = widths.reduce((a, b) => a + b) * unit, high = d.layers * (layer + gap);
  const ink = sheet(caches, Math.round(wide * ratio), Math.round(high * ratio), ratio);
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  ink.font = `12px ${getComputedStyle(view.root).fontFamily}`;
  ink.textBaseline = "middle";
  for (let l = 0, y = 0; l < d.layers; l++, y += layer + gap) {
    ink.globalAlpha = 1;
    ink.fillStyle = "#7d7d7d";
    ink.fillText(`L${l}`, 0, y + layer / 2);
    let top = y;
    for (const [name, numbers, head] of d.parts) {
      ink.fillStyle = head < 0 ? "#7d7d7d" : d.marks[d.kvHeadOf.indexOf(head)];
      for (let t = 0; t < held; t++) {
        ink.globalAlpha = t === held - 1 && n ? 1 : name[0] === "K" || name === "latent" ? 0.6 : 0.38;
        ink.fillRect(left + t * column, top, Math.max(column - (column > 3 ? 1 : 0), 0.5), numbers * unit - 0.5);
      }
      ink.globalAlpha = 0.12; // what is still to be written
      ink.fillRect(left + held * column, top, (all - held) * column, numbers * unit - 0.5);
      top += numbers * unit;
    }
  }
  ink.globalAlpha = 1;
  caches.ariaLabel = `Caches of ${d.layers} layers, each with ${held} tokens`;
}

// ---- maps: a pixel for each weight, a row for each query, scaled by the browser

function makeMaps(view) {
  const { d } = view, rows = d.before + d.steps.length, wide = d.T + d.steps.length - 1;
  view.maps.replaceChildren(...d.marks.map((mark, h) => {
    const figure = el("figure", ""), canvas = Object.assign(el("canvas", ""), { width: wide, height: rows }), name = el("figcaption", "", `H${h} reads KV ${d.kvHeadOf[h]}`);
    canvas.setAttribute("role", "img");
    canvas.ariaLabel = `Weights of head ${h}: rows are queries, columns are keys`;
    canvas.style.borderTop = `3px solid ${mark}`;
    figure.append(canvas, name);
    return figure;
  }));
  view.painted = -1;
}

function paintMaps(view, now) {
  const { d } = view, from = now < view.painted || view.painted < 0 ? -1 : view.painted;
  [...view.maps.querySelectorAll("canvas")].forEach((canvas, h) => {
    const ink = canvas.getContext("2d");
    if (from < 0) {
      ink.clearRect(0, 0, canvas.width, canvas.height);
      for (let r = 0; r < d.before; r++) row(ink, d, h, r, (h * d.before + r) * d.T, Math.min(d.T, d.T - d.before + r), canvas.width);
    }
    for (let i = from + 1; i <= now; i++) row(ink, d, h, d.before + i, d.from[i] + h * (d.T + i), d.T + i, canvas.width);
  });
  view.painted = now;
}

// What lies behind `n` keys is masked: a query does not look ahead.
function row(ink, d, h, y, at, n, width) {
  const image = new ImageData(width, 1), out = new Uint32Array(image.data.buffer), table = d.tables[h];
  for (let k = 0; k < width; k++) out[k] = table[k < n ? d.cells[at + k] : d.scale + 1];
  ink.putImageData(image, 0, y);
}

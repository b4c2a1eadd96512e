// The text in the browser: the hovered token is the query; every token is shaded by the weight that the query gives it.
import { begun, boxOf, clamp, el, isBrowsers, partsOf, presses, zoomOf } from "./call.js";
import { isolated, named, placeOf, printed, short, unpack, weightAt } from "./packed_weights.js";
import { saveButtons } from "./save_buttons.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".tv");
  const view = (root.view ??= create(root)), call = begun(root);
  view.send = setTriggerValue;
  // a row pointed at in the head's map; null when the pointer leaves it
  document.addEventListener("attnviz-row", (e) => { if (e.detail < view.d.shape[2]) show(view, e.detail ?? view.d.query); }, { signal: call.signal });
  update(view, data);
  return call.end;
}

function create(root) {
  const view = { root, ...partsOf(root, ["title", "strongest", "asking", "text", "marks", "after", "bars"]) };
  for (const side of [view.text, view.asking]) {
    side.onpointermove = (e) => { const row = rowAt(view, e); if (row !== null && row !== view.at) tell(row); };
    side.onpointerleave = () => tell(null);
    side.onclick = (e) => { const row = rowAt(view, e); if (row !== null) choose(view, row); };
    side.onkeydown = (e) => key(view, e);
  }
  return view;
}

function update(view, bytes) {
  const old = view.d, d = (view.d = bytes === view.bytes ? old : unpack(bytes));
  view.bytes = bytes;
  view.root.style.setProperty("--hue", d.mark);
  view.marks.textContent = d.marks;
  const other = !old || textsOf(old) !== textsOf(d);
  if (other) lay(view);
  view.at = undefined;
  show(view, d.query);
  if (other || old.query !== d.query) reveal(view); // it reads the layout, which is slow for a long text
  saveButtons(view.root, () => ({ title: "", legend: [[d.mark, d.name]], unsaved: ".strongest" }));
}

const textsOf = (d) => JSON.stringify([d.labels, d.queries, d.first]);

// The head's map, the lines and this text follow a row that is pointed at in one of them; null when the pointer leaves.
const tell = (row) => document.dispatchEvent(new CustomEvent("attnviz-row", { detail: row }));

// The row of a token that is a query, or null. The queries may be another text's, or begin after the first key.
function rowAt(view, e) {
  const token = e.target.closest(".token"), row = token ? rowOf(view, token) : -1;
  return row >= 0 && row < view.d.shape[2] ? row : null;
}

const rowOf = ({ d, asking }, token) => (d.queries ? (asking.contains(token) ? token.at : -1) : token.at - (d.first ?? 0));

// Shows "·the" as " the", and keeps the text's line breaks. A line ends where `mayEnd`.
function lay({ d, text, asking }) {
  const whole = new Map(d.characters.map((each) => [each[0], each])), laid = [];
  let before = "";
  for (let at = 0; at < d.labels.length; at = whole.get(at)?.[1] ?? at + 1) {
    const written = whole.get(at)?.[2] ?? d.labels[at];
    if (d.spaced && before && !written.startsWith("##")) laid.push(" "); // its tokens do not say where spaces are
    if (mayEnd(before, written)) laid.push(el("wbr", ""));
    laid.push(...(whole.has(at) ? [characterOf(d, ...whole.get(at))] : tokenOf(d, at)));
    before = written;
  }
  text.replaceChildren(...laid);
  text.tokens = [...text.querySelectorAll(".token")];
  asking.hidden = !d.queries;
  asking.replaceChildren(...(d.queries?.labels ?? []).flatMap((_, at) => [...(d.queries.spaced && at && !d.queries.labels[at].startsWith("##") ? [" "] : []), ...tokenOf(d.queries, at)]));
}

function tokenOf(d, at) {
  const label = d.labels[at], token = Object.assign(el("span", "token", label.replace(/^·(?=.)/, "\u00a0")), { at, title: titleOf(d, at) });
  return label.endsWith("⏎") ? [token, el("br", "")] : [token];
}

// A character that several tokens form is written once; behind it lie its tokens, side by side.
function characterOf(d, start, stop, written) {
  const box = el("span", "character"), tokens = el("span", "parts");
  for (let at = start; at < stop; at++) tokens.append(Object.assign(el("i", "token"), { at, title: titleOf(d, at) }));
  tokens.dir = isolated(written) === written ? "ltr" : "rtl";
  box.classList.toggle("wide", stop - start > MANY_PARTS);
  box.style.setProperty("--parts", stop - start);
  box.append(tokens, el("span", "glyph", written));
  return box;
}

// Whether a line may end between two pieces of a text: before a space, and beside a Chinese, Japanese or Korean character or a
// picture, but not after an opening mark, nor before a closing or a repeating one. Beside a character of several tokens
// Firefox ends no line itself, since those are out of flow.
const mayEnd = (before, after) => before && (after.startsWith("·") || (besideIdeograph(before, after) && !OPENS.test(before) && !STAYS.test(after)));
const besideIdeograph = (before, after) => IDEOGRAPHIC_LAST.test(before) || IDEOGRAPHIC_FIRST.test(after);
const IDEOGRAPHIC = String.raw`[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{Extended_Pictographic}\uff00-\uff60]\p{M}*`;
const IDEOGRAPHIC_FIRST = new RegExp(`^${IDEOGRAPHIC}`, "u"), IDEOGRAPHIC_LAST = new RegExp(`${IDEOGRAPHIC}$`, "u");
const OPENS = /[\p{Ps}\p{Pi}]$/u, STAYS = /^[\p{Pe}\p{Pf}\p{Po}\p{M}\p{Lm}⏎ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ]/u;

const MANY_PARTS = 6; // tokens, above which a character is made wide enough to point at each

const titleOf = (d, at) => `${placeOf(d, at)} “${d.labels[at]}”`;

const cell = ({ d }, q, k) => d.cells[q * d.shape[3] + k];

function show(view, q) {
  if (view.at === q) return;
  view.at = q;
  const { d, text } = view;
  for (const token of text.tokens) {
    const k = token.at;
    const c = cell(view, q, k), masked = c > d.steps;
    token.classList.toggle("masked", masked);
    token.classList.toggle("query", rowOf(view, token) === q);
    token.style.setProperty("--share", `${masked ? 0 : 65 * Math.sqrt(c / d.steps)}%`);
  }
  for (const token of view.asking.querySelectorAll(".token")) token.classList.toggle("query", token.at === q);
  showReadout(view, q);
}

// Scrolls a long text to the token that its title names.
function reveal({ d, at, text }) {
  if (d.queries) return;
  const zoom = zoomOf(text), box = boxOf(text, zoom), token = boxOf(text.tokens[at + (d.queries ? 0 : d.first ?? 0)], zoom);
  if (token.top < box.top || token.bottom > box.bottom) text.scrollTop += (token.top + token.bottom - box.top - box.bottom) / (2 * zoom);
}

const quote = (d, i) => named(placeOf(d, i), d.labels[i]);
const asked = (d, q) => (d.queries ? named(placeOf(d.queries, q), d.queries.labels[q]) : quote(d, q + (d.first ?? 0)));

function showReadout(view, q) {
  const { d, title, strongest, after, bars } = view, next = d.next?.[q], row = q * d.shape[3], sizeAt = (k) => d.valueAt?.(row + k) ?? d.cells[row + k];
  const most = d.labels.map((_, k) => k).filter((k) => cell(view, q, k) <= d.steps).sort((a, b) => sizeAt(b) - sizeAt(a)).slice(0, 3);
  title.textContent = `${d.queries ? "Text of the keys, shaded" : "Text shaded"} by the ${d.of} of query ${asked(d, q)}`;
  strongest.textContent = most.length ? `${d.name}, largest ${d.of}: ${most.map((k) => `${quote(d, k)} ${weightAt(d, row + k)}`).join(", ")}.`
    : `${d.name}: ${d.rows && (q < d.rows[0] || q >= d.rows[1]) ? "this run has no row for this query" : "every key of this query is masked"}.`;
  for (const each of [after, bars]) each.style.display = next ? "" : "none";
  if (!next) return; // a saved run predicts nothing
  after.textContent = `The model’s next token after ${quote(d, q)}: ${next.length ? `“${short(next[0][0])}” with probability ${printed(next[0][1])}` : ""}`;
  bars.replaceChildren(...next.map(([label, odds, begins]) => {
    const row = el("div", "bar"), box = el("span", "box"), fill = el("i", "");
    fill.style.width = `${100 * odds}%`;
    box.append(fill);
    row.append(el("bdi", "name", short(label)), box, el("span", "odds", printed(odds)));
    if (begins) row.append(el("small", "begins", begins));
    return row;
  }));
}

function choose(view, q) {
  view.d.query = q;
  view.send("query", [q, 0]);
}

function key(view, e) {
  const way = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[e.key], last = view.d.shape[2] - 1;
  if (isBrowsers(e)) return;
  if (presses(e)) choose(view, view.at);
  else if (way) tell(clamp(view.at + way, 0, last));
  else return;
  reveal(view);
  e.preventDefault();
}

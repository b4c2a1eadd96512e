// The settings on the left. A change is shown at once and wished for, and stays as it is until the server has answered it:
// what comes from there before is older.
const WISH = "attnviz-wish", IN_FORCE = "attnviz-in-force", COURIER = "attnviz-courier", STOP = "attnviz-stop";
const wished = (window.attnvizWished ??= { n: 0, changes: {} }); // outlives the form, which is made anew on another page

export default function ({ data: bytes, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".sf"), data = JSON.parse(new TextDecoder().decode(bytes));
  const form = (root.form ??= create(root, data.controls)), call = begun(root);
  document.addEventListener(IN_FORCE, (event) => show(form, event.detail), { signal: call.signal });
  document.addEventListener(COURIER, () => Object.keys(wished.changes).length && tell(), { signal: call.signal });
  document.addEventListener(STOP, () => setTriggerValue("stop", true), { signal: call.signal });
  show(form, data);
  return call.end;
}

function create(root, controls) {
  const form = { values: {}, rows: [] };
  const folds = {};
  for (const control of controls) {
    const row = ROWS[control.kind](form, control);
    const place = control.fold ? (folds[control.fold] ??= fold(root, control.fold)) : root;
    place.append(row.element);
    form.rows.push({ ...row, control });
  }
  return form;
}

// What is wished and not answered yet is said again each time: of two messages in a row, Streamlit may keep the last alone.
function wish(form, changes) {
  Object.assign(form.values, changes);
  Object.assign(wished.changes, changes);
  wished.n = Math.max(wished.n + 1, Date.now()); // later than what was wished before a reload
  layout(form);
  tell();
}

function tell() {
  document.dispatchEvent(new CustomEvent(WISH, { detail: { ...wished } }));
}

function show(form, { values, said }) {
  if (said >= wished.n) wished.changes = {};
  Object.assign(form.values, values, wished.changes);
  layout(form);
}

// What is written anew is laid out anew, and what is wished leaves the browser only after that: so only what has changed.
function layout({ rows, values }) {
  for (const row of rows) {
    const { element, control, update } = row, value = values[control.field], steps = control.steps?.[values.n_heads];
    const hidden = Object.entries(control.only ?? {}).some(([field, among]) => !among.includes(values[field])) || steps?.length < 2;
    if (element.hidden !== hidden) element.hidden = hidden;
    if (row.value !== value || row.steps !== steps) update?.(value, steps);
    Object.assign(row, { value, steps });
  }
}

// ---- a row for each kind of control: {element, update(value in words, steps)}

const ROWS = { text, examples, select, range, steps: range, number, flag, note };

function text(form, { field, label, hint }) {
  const area = make("textarea", { rows: 5, placeholder: hint });
  const set = () => area.value !== form.values[field] && wish(form, { [field]: area.value });
  area.onchange = set;
  area.onkeydown = (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) set(); };
  const said = make("small", { textContent: "Ctrl + Enter to apply", hidden: true });
  area.oninput = () => (said.hidden = area.value === form.values[field]);
  const update = (value) => {
    said.hidden = true;
    if (value !== undefined && area.value !== value) area.value = value;
  };
  return { element: labelled(label, area, said), update };
}

function examples(form, { field, label, hint, texts }) {
  const element = make("div", { className: "examples", title: hint });
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", label);
  element.append(make("span", { className: "label", textContent: label }));
  const take = (value) => {
    form.rows.find(({ control }) => control.kind === "text").value = null; // what was typed and not applied gives way
    wish(form, { [field]: value });
  };
  for (const [name, value] of texts) element.append(make("button", { type: "button", textContent: name, onclick: () => take(value) }));
  return { element };
}

function select(form, { field, label, options }) {
  const box = make("select", { onchange: () => wish(form, { [field]: box.value }) });
  for (const [value, name] of options) box.append(make("option", { value, textContent: name }));
  return { element: labelled(label, box), update: (value) => (box.value = value) };
}

// A slider over low to high, or over the values that are possible just now.
function range(form, { field, label, low, high, hint }) {
  const bar = make("input", { type: "range", min: low ?? 0, max: high ?? 0 }), shown = make("span", { className: "value" });
  let possible = null;
  const value = () => String(possible ? possible[bar.value] : bar.value);
  const say = () => {
    shown.textContent = value();
    bar.setAttribute("aria-valuetext", value());
  };
  bar.oninput = say;
  bar.onchange = () => wish(form, { [field]: value() });
  const update = (wanted, steps) => {
    possible = steps ?? null;
    if (possible) bar.max = possible.length - 1;
    bar.value = possible ? nearest(possible, +wanted) : wanted;
    say();
  };
  return { element: labelled(label, bar, shown, hint), update };
}

function number(form, { field, label, low, high }) {
  const box = make("input", { type: "number", min: low, max: high, step: 1 });
  box.onchange = () => wish(form, { [field]: box.value });
  return { element: labelled(label, box), update: (value) => (box.value = value) };
}

function flag(form, { field, label }) {
  const box = make("input", { type: "checkbox", onchange: () => wish(form, { [field]: box.checked ? "1" : "0" }) });
  const element = make("label", { className: "flag" });
  element.append(box, make("span", { textContent: label }));
  return { element, update: (value) => (box.checked = value === "1") };
}

function note(form, { label }) {
  return { element: make("p", { textContent: label }) };
}

// ---- what rows are made of

function make(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

function labelled(name, control, beside, hint) {
  const element = make("label", { title: hint ?? "" }), head = make("span", { className: "label" });
  head.append(make("span", { textContent: name }), ...(beside ? [beside] : []));
  control.setAttribute("aria-label", name);
  element.append(head, control);
  return element;
}

function fold(root, title) {
  const element = make("details", {});
  element.append(make("summary", { textContent: title }));
  root.append(element);
  return element;
}

function nearest(possible, wanted) {
  return possible.reduce((best, value, i) => (Math.abs(value - wanted) < Math.abs(possible[best] - wanted) ? i : best), 0);
}

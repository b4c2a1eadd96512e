// Names of which one is chosen, as a group of radio buttons: Tab goes to the chosen one, the arrow keys go on from there, and
// Enter or a space chooses, so that nothing is drawn on the way to the name that was meant.
const ways = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".oo"), view = (root.view ??= create(root));
  view.send = (value) => setTriggerValue("choice", value);
  if (data === view.bytes) return;
  view.bytes = data;
  update(view, JSON.parse(new TextDecoder().decode(data)));
}

function create(root) {
  const view = { root, label: root.querySelector("#label"), group: root.querySelector("[role=radiogroup]") };
  view.group.onclick = (e) => choose(view, e.target.closest("button"));
  view.group.onkeydown = (e) => walk(view, e);
  return view;
}

function update(view, { label, quiet, names, chosen }) {
  const written = JSON.stringify(names);
  view.label.textContent = label;
  view.label.classList.toggle("quiet", quiet);
  if (written !== view.written) view.group.replaceChildren(...names.map(button));
  view.written = written;
  mark(view, chosen);
}

function button([value, name]) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: name, value });
  made.setAttribute("role", "radio");
  return made;
}

function mark({ group }, chosen) {
  for (const each of group.children) {
    each.setAttribute("aria-checked", each.value === chosen);
    each.tabIndex = each.value === chosen ? 0 : -1;
  }
}

function choose(view, button) {
  if (!button || button.ariaChecked === "true") return;
  mark(view, button.value);
  view.send(button.value);
}

function walk({ root, group }, e) {
  const step = ways[e.key], all = [...group.children], at = all.indexOf(root.getRootNode().activeElement);
  if (!step || at < 0 || e.ctrlKey || e.altKey || e.metaKey) return;
  all.at((at + step) % all.length).focus();
  e.preventDefault();
}

// A list whose lines are dragged, or moved by their buttons.
import { begun, boxOf, el } from "./call.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const list = parentElement.querySelector(".ol"), call = begun(list), text = new TextDecoder().decode(data);
  list.send = () => setTriggerValue("order", [...list.children].map((row) => row.place));
  if (list.text !== text) {
    list.text = text;
    list.replaceChildren(...JSON.parse(text).lines.map((line, place) => rowOf(list, line, place)));
    number(list);
  }
  list.ondragover = (e) => drag(list, e);
  list.ondrop = (e) => e.preventDefault();
  return call.end;
}

function rowOf(list, line, place) {
  const row = Object.assign(el("li", ""), { place, draggable: true });
  const up = Object.assign(el("button", "", "↑"), { type: "button", onclick: () => move(list, row, -1, up) });
  const down = Object.assign(el("button", "", "↓"), { type: "button", onclick: () => move(list, row, 1, down) });
  up.setAttribute("aria-label", `Move up: ${line}`);
  down.setAttribute("aria-label", `Move down: ${line}`);
  row.append(el("b", ""), el("code", "", line), up, down);
  row.ondragstart = (e) => { list.dragged = row; row.classList.add("dragged"); e.dataTransfer.effectAllowed = "move"; e.dataTransfer.setData("text/plain", line); };
  row.ondragend = () => { row.classList.remove("dragged"); list.dragged = undefined; list.send(); };
  return row;
}

function move(list, row, way, button) {
  const other = way < 0 ? row.previousElementSibling : row.nextElementSibling;
  if (!other) return;
  if (way < 0) other.before(row); else other.after(row);
  number(list);
  button.focus();
  list.send();
}

function drag(list, e) {
  if (!list.dragged) return;
  e.preventDefault();
  const under = e.target.closest("li");
  if (!under || under === list.dragged) return;
  const at = boxOf(under);
  if (e.clientY < at.top + at.height / 2) under.before(list.dragged); else under.after(list.dragged);
  number(list);
}

function number(list) {
  [...list.children].forEach((row, i) => { row.firstChild.textContent = i + 1; });
}

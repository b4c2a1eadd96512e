// Copies the page's URL; without clipboard permission, shows it for copying by hand. Also loads `save.js`, which saves all pictures
// of the page.
import { begun, boxOf, jsonOf } from "./call.js";
import { copyText, LEFT_OUT, linkTo } from "./copy_text.js";
import { saving } from "./save.js";

// Options for the drawings currently on the page, to choose the one of which `make` writes the text to copy.
function offer(choice, drawings, make) {
  choice.make = make;
  const there = drawings.filter(([name]) => document.querySelector(`.${name}`));
  const first = Object.assign(document.createElement("option"), { value: "", textContent: there.length ? "Which drawing?" : "No drawing on this page", disabled: true, selected: true });
  choice.replaceChildren(first, ...there.map(([, value, textContent]) => Object.assign(document.createElement("option"), { value, textContent })));
  choice.hidden = false;
  choice.focus();
}

const WIDTH = 800, AROUND = 48; // pixels; around an embedded drawing

async function embedCode(key) {
  const [shown, , name] = document.attnvizSave.drawings.find((each) => each[1] === key);
  const height = await heightAt(WIDTH - AROUND, document.querySelector(`.${shown}`)), url = linkTo(key);
  url.searchParams.set("embed", "true");
  const address = url.href.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  return `<iframe src="${address}" title="AttnViz: ${name}" width="${WIDTH}" height="${height + AROUND}" style="border: 0" allow="fullscreen"></iframe>`;
}

// The height in pixels of a drawing at this width: it is laid out so for a moment.
async function heightAt(width, drawing) {
  const before = drawing.getAttribute("style") ?? "";
  drawing.style.cssText = `${before}; width: ${width}px !important; max-width: none !important`;
  await new Promise((done) => setTimeout(done, 300));
  const { height } = boxOf(drawing);
  drawing.setAttribute("style", before);
  return Math.ceil(height);
}

// The view as a step of a lesson, to paste into its file; the sentence is an example.
function lessonStep(key) {
  const url = new URL(window.location.href), name = document.attnvizSave.drawings.find((each) => each[1] === key)[2];
  for (const each of [...LEFT_OUT, "only"]) url.searchParams.delete(each);
  const page = url.pathname.split("/").at(-1) || "/";
  return `## ${name}\n\nLink: ${page}${url.search}\nLook at: ${key}\n\nQuery {query} gives {weight_percent} of its weight to token {key}.\n`;
}

export default function ({ data, parentElement }) {
  document.attnvizSave = Object.assign(saving, jsonOf(data)); // URLs omit default values
  const [button, code, step, choice, status] = [".link", ".code", ".step", "select", "[role=status]"].map((each) => parentElement.querySelector(each));
  const call = begun(button);
  button.textContent = "Copy link to this view";
  button.onclick = () => copyText(() => window.location.href, status);
  code.textContent = "Copy embed code";
  code.onclick = () => offer(choice, document.attnvizSave.drawings, embedCode);
  step.textContent = "Copy lesson step";
  step.hidden = !document.attnvizSave.writesLessons;
  step.onclick = () => offer(choice, document.attnvizSave.drawings, lessonStep);
  choice.onchange = () => { copyText(choice.make.bind(null, choice.value), status); choice.hidden = true; };
  return call.end;
}

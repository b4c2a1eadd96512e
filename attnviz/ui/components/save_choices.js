// Fills a bar with the buttons that save a picture, one that copies it, one that copies the link to it, and one that shows how it is
// saved. key: of the drawing; save(kind): of "png", "svg" or "copy"; nameOf(kind) is a button's name; between(add) adds further ones with
// add(text, name, onclick), which returns the button.
import { el } from "./call.js";
import { copyText, linkTo } from "./copy_text.js";

export function fillBar(bar, key, save, nameOf, between = () => {}) {
  const add = (text, ariaLabel, onclick) => {
    const button = Object.assign(el("button", "", text), { type: "button", ariaLabel, onclick });
    bar.append(button);
    return button;
  };
  for (const kind of ["PNG", "SVG"]) add(kind, nameOf(kind), () => save(kind.toLowerCase()));
  copyButton(add, save);
  if (!document.attnvizSave?.alone) linkButton(add, key); // a notebook's page has no link
  between(add);
  choicesButton(bar, add);
}

function linkButton(add, key) {
  const link = add("Link", "Copy the link to this drawing", () => copyText(() => linkTo(key).href, link, "Link"));
}

function copyButton(add, save) {
  if (!navigator.clipboard?.write || typeof ClipboardItem !== "function") return; // as on a page without https
  const button = add("Copy", "Copy as PNG", async () => {
    button.textContent = await save("copy").then(() => "Copied", () => "The browser refused");
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
}

function choicesButton(bar, add) {
  const button = add("⋮", "How it is saved", () => {
    const open = bar.querySelector(".choices");
    button.ariaExpanded = !open;
    if (open) open.remove();
    else button.after(document.attnvizSave.menu());
  });
  button.ariaExpanded = false;
}

// Two buttons that save what a component shows. about() gives what `save.js` wants to know, as a button is pressed.
function saveButtons(root, about) {
  root.about = about;
  if (root.querySelector(":scope > .save")) return;
  const bar = root.appendChild(Object.assign(document.createElement("div"), { className: "save" }));
  for (const kind of ["PNG", "SVG"]) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: kind, ariaLabel: `Save as ${kind}` });
    button.onclick = () => document.attnvizSave.component(kind.toLowerCase(), root, root.about());
    bar.append(button);
  }
}


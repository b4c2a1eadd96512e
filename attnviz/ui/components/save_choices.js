// Two buttons beside those that save a picture: one that copies it, and one that shows how it is saved. add(text, name, onclick) returns
// a button.
export function copyButton(add, save) {
  if (!navigator.clipboard?.write || typeof ClipboardItem !== "function") return; // as on a page without https
  const button = add("Copy", "Copy as PNG", async () => {
    button.textContent = await save("copy").then(() => "Copied", () => "The browser refused");
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
}

export function choicesButton(bar, add) {
  const button = add("⋮", "How it is saved", () => {
    const open = bar.querySelector(".choices");
    button.ariaExpanded = !open;
    if (open) open.remove();
    else button.after(document.attnvizSave.menu());
  });
  button.ariaExpanded = false;
}

// Shared by the components that draw with SVG. Appends an element to another: "svg", and whatever is inside one, as SVG.
export function add(parent, tag, attributes = {}, text = "") {
  const node = document.createElementNS(tag === "svg" ? "http://www.w3.org/2000/svg" : parent.namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== "") node.textContent = text;
  return parent.appendChild(node);
}

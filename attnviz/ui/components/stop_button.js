// Ends what the page is at. A part's own controls cannot: what they ask for comes after it. The form on the left asks for the
// whole page, which ends it at once.
export default function ({ parentElement }) {
  const button = parentElement.querySelector("button");
  button.onclick = () => document.dispatchEvent(new CustomEvent("attnviz-stop"));
}

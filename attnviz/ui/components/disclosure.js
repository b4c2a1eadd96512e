// Says at once that it is open, or closed again; what belongs under it comes from the server.
export default function ({ data, parentElement, setStateValue }) {
  const button = parentElement.querySelector("button");
  button.onclick = () => {
    const open = button.ariaExpanded !== "true";
    button.ariaExpanded = open;
    setStateValue("open", open);
  };
  if (data === button.data) return;
  button.data = data;
  const { label, open } = JSON.parse(new TextDecoder().decode(data));
  button.textContent = label;
  button.ariaExpanded = open;
}

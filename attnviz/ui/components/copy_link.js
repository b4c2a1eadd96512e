// Copies the address of the page; where the clipboard is closed to us, shows it to be copied by hand. And lets the links to
// the other pages carry what the address says just now, for who opens one in another tab: the server wrote them earlier.
// And brings `save.js`, which all pictures of the page are saved with.
const LINKS = "[data-testid=stPageLink-NavLink]", EVENTS = ["pointerover", "focusin"];

function carry(event) {
  const link = event.target.closest?.(LINKS);
  if (link) link.search = window.location.search;
}

export default function ({ data, parentElement }) {
  document.attnvizSave = Object.assign(saving, JSON.parse(new TextDecoder().decode(data))); // an address leaves out what is usual
  const button = parentElement.querySelector("button");
  const status = parentElement.querySelector("[role=status]");
  const call = begun(button);
  for (const event of EVENTS) document.addEventListener(event, carry, { signal: call.signal });
  button.textContent = "Copy link to this view";
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(window.location.href);
      status.textContent = "Copied";
    } catch {
      status.textContent = window.location.href;
    }
    setTimeout(() => (status.textContent = ""), 4000);
  };
  return call.end;
}

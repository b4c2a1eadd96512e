// Copies the address of the page; where the clipboard is closed to us, shows it to be copied by hand. And lets the links to
// the other pages carry what the address says just now, for who opens one in another tab: the server wrote them earlier.
// And brings `save.js`, which all pictures of the page are saved with, and `one_entry.js`.
const LINKS = "[data-testid=stPageLink-NavLink]", EVENTS = ["pointerover", "focusin"];

// A chart of plotly's takes every touch for a zoom, and a page could not be scrolled over it. It still answers a tap, which comes
// as a click of the mouse does.
function leaveToThePage(event) {
  if (event.target.closest?.(".stPlotlyChart")) event.stopPropagation();
}

function carry(event) {
  const link = event.target.closest?.(LINKS);
  if (link) link.search = window.location.search;
}

async function copy(text, status) {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = "Copied";
  } catch {
    status.textContent = text;
  }
  setTimeout(() => (status.textContent = ""), 4000);
}

// The drawings that the page shows just now, to choose the one to embed.
function offer(choice, drawings) {
  const there = drawings.filter(([name]) => document.querySelector(`.${name}`));
  const first = Object.assign(document.createElement("option"), { value: "", textContent: there.length ? "Which drawing?" : "No drawing on this page", disabled: true, selected: true });
  choice.replaceChildren(first, ...there.map(([, value, textContent]) => Object.assign(document.createElement("option"), { value, textContent })));
  choice.hidden = false;
  choice.focus();
}

const LEFT_OUT = ["lesson", "lesson_step", "present"];

function embedCode(key) {
  const url = new URL(window.location.href), name = document.attnvizSave.drawings.find((each) => each[1] === key)[2];
  for (const each of LEFT_OUT) url.searchParams.delete(each);
  url.searchParams.set("embed", "true");
  url.searchParams.set("only", key);
  const address = url.href.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  return `<iframe src="${address}" title="AttnViz: ${name}" width="800" height="600" style="border: 0" allow="fullscreen"></iframe>`;
}

export default function ({ data, parentElement }) {
  oneEntryPerPage();
  document.attnvizSave = Object.assign(saving, JSON.parse(new TextDecoder().decode(data))); // an address leaves out what is usual
  const [button, code, choice, status] = [".link", ".code", "select", "[role=status]"].map((each) => parentElement.querySelector(each));
  const call = begun(button);
  for (const event of EVENTS) document.addEventListener(event, carry, { signal: call.signal });
  document.addEventListener("touchstart", leaveToThePage, { capture: true, passive: true, signal: call.signal });
  button.textContent = "Copy link to this view";
  button.onclick = () => copy(window.location.href, status);
  code.textContent = "Copy embed code";
  code.onclick = () => offer(choice, document.attnvizSave.drawings);
  choice.onchange = () => { copy(embedCode(choice.value), status); choice.hidden = true; };
  return call.end;
}

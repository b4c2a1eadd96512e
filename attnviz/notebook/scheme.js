// Light or dark: as what is around the page, a notebook's cell or another page, and else as the browser prefers.
const QUERY = matchMedia("(prefers-color-scheme: dark)");

// Calls this now and whenever the scheme changes.
export function followScheme(then) {
  let last = null;
  const look = () => {
    const scheme = (groundAround() ?? QUERY.matches) ? "dark" : "light";
    if (scheme === last) return;
    document.documentElement.dataset.scheme = last = scheme;
    then();
  };
  QUERY.addEventListener("change", look);
  for (const each of around()) new MutationObserver(() => requestAnimationFrame(look)).observe(each, { attributes: true, attributeFilter: ["class", "style", "theme", "data-theme", "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind"] });
  look();
}

// The elements around the frame that this page is in, from the inside out; none of another origin, or without a frame.
function around() {
  const found = [];
  try {
    for (let at = window.frameElement?.parentElement; at; at = at.parentElement) found.push(at);
  } catch { /* another origin */ }
  return found;
}

// Whether the first ground around the page that is not transparent is dark; null if there is none.
function groundAround() {
  for (const each of around()) {
    const [r, g, b, alpha = 1] = getComputedStyle(each).backgroundColor.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    if (alpha > 0.5) return 0.299 * r + 0.587 * g + 0.114 * b < 128;
  }
  return null;
}

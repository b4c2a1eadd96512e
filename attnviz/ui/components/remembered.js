// Which calculations this browser's user has opened or closed: {place: whether it is open}, in local storage and never sent. Where that is
// blocked, as in a private window or a notebook's frame, until the page is closed.
const PLACES = "attnviz-calculations", MOST_PLACES = 300; // places; the oldest are dropped first

const unstored = () => (document.attnvizCalculations ??= {}); // of the document: components may each have this module
const storedPlaces = () => { try { return JSON.parse(localStorage.getItem(PLACES)); } catch { return {}; } };
const allPlaces = () => ({ ...storedPlaces(), ...unstored() });

// undefined where neither was done.
export function wasLeftOpen(place) {
  const open = allPlaces()[place];
  return typeof open === "boolean" ? open : undefined;
}

export function remember(place, open) {
  const { [place]: _, ...others } = allPlaces(), entries = [...Object.entries(others), [place, open]].slice(-MOST_PLACES);
  try {
    localStorage.setItem(PLACES, JSON.stringify(Object.fromEntries(entries)));
  } catch {
    unstored()[place] = open;
  }
}

export function forgetCalculations() {
  document.attnvizCalculations = {};
  try { localStorage.removeItem(PLACES); } catch { /* it holds nothing then */ }
}

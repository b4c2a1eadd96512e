// Keeps the person's progress in local storage. Nothing of others is read there, and nothing is sent where there is none. What it holds
// and the session does not know is sent once, from other tabs too; the session answers with what it has more, and that is written
// unless the item has changed meanwhile: then that is sent first. With it goes what runs in this tab, which the tab's own storage
// remembers over a reload, the time that was left when it was last noted, and the browser's own date, which is sent alone where the
// session has another one.
import { begun, jsonOf } from "./call.js";
import { ITEM } from "./keeps.js";
import { forgetCalculations } from "./remembered.js";

const HERE = "attnviz-here", LEFT = "attnviz-left";
const MOST = 200_001, LOST = 5000, ASLEEP = 65, LOOK = 20_000; // characters that are sent of a longer item; milliseconds for an answer; seconds; milliseconds

export default function ({ data, parentElement, setTriggerValue }) {
  const call = begun(parentElement), { session, heard, forgets, text, here, clock, day } = jsonOf(data);
  if (document.attnvizProgress?.session !== session) {
    clearInterval(document.attnvizProgress?.turn);
    document.attnvizProgress = { session, known: null, number: 0, forgets: 0, sentAt: 0 };
  }
  const at = document.attnvizProgress; // of the document: it ends with the session, and pages mount the component again
  const send = (held) => {
    Object.assign(at, { known: held, number: at.number + 1, sentAt: performance.now(), told: `${day} ${today()}` });
    const left = read("localStorage", LEFT) ?? "", ran = read("sessionStorage", HERE) ?? "";
    setTriggerValue("stored", { number: at.number, text: held?.slice(0, MOST) ?? null, here: ran, left, day: today() });
  };
  const sendDay = () => {
    const told = `${day} ${today()}`; // once for each day that the session has, as it may not believe this browser
    if (today() === day || at.told === told) return;
    at.told = told;
    setTriggerValue("day", today());
  };
  const save = () => {
    if (write("localStorage", ITEM, text)) {
      at.known = text;
      return;
    }
    refuse();
  };
  const refuse = () => {
    if (!at.blocked) setTriggerValue("blocked", true);
    at.blocked = true;
  };
  window.addEventListener("storage", ({ key }) => { if (key === ITEM || key === null) look(); }, { signal: call.signal });
  const look = () => { const held = read("localStorage", ITEM); if (held !== at.known) send(held); else sendDay(); };
  const turn = setInterval(look, LOOK); // a page can stay open over midnight, and its computer can sleep then
  call.signal.addEventListener("abort", () => clearInterval(turn));
  document.addEventListener("visibilitychange", look, { signal: call.signal });

  if (forgets > at.forgets) {
    Object.assign(at, { forgets, known: null });
    for (const item of [ITEM, LEFT]) write("localStorage", item, null);
    forgetCalculations();
  }
  const held = read("localStorage", ITEM), unheard = heard < at.number;
  if (held !== at.known || (unheard && performance.now() - at.sentAt > LOST)) send(held);
  else {
    if (text !== null && text !== held && !unheard) save();
    sendDay();
  }
  if (heard >= at.number) { // before that, the session does not know what ran here
    write("sessionStorage", HERE, here || null);
    note(at, clock);
  }
  if (!stores()) refuse(); // at once: the pages say where they keep what a person does
  return call.end;
}

// The date where the person is, as ISO 8601 has it.
function today() {
  const now = new Date();
  return new Date(now.getTime() - 60_000 * now.getTimezoneOffset()).toISOString().slice(0, 10);
}

// Whether there is local storage. One that is full is noticed when something is to be written.
function stores() {
  try { return Boolean(window.localStorage); } catch { return false; }
}

// Notes each second how much time is left. A longer gap between two seconds is a computer that slept.
function note(at, clock) {
  clearInterval(at.turn);
  if (!clock) return;
  const [id] = clock;
  let [, left] = clock, last = performance.now();
  at.turn = setInterval(() => {
    const now = performance.now();
    left = Math.max(0, left - Math.min((now - last) / 1000, ASLEEP));
    last = now;
    write("localStorage", LEFT, `${id} ${left.toFixed(1)}`);
  }, 1000);
}

// A browser can refuse to store anything, or have no such storage at all.
function read(storage, item) {
  try {
    return window[storage].getItem(item);
  } catch {
    return null;
  }
}

function write(storage, item, text) {
  try {
    if (text === null) window[storage].removeItem(item);
    else window[storage].setItem(item, text);
    return true;
  } catch {
    return false;
  }
}

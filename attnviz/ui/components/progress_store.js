// Keeps the person's progress in local storage. Nothing is read but one item, and nothing is sent where there is none. What it holds
// and the session does not know is sent once, from other tabs too; the session answers with what it has more, and that is written
// unless the item has changed meanwhile: then that is sent first.
import { begun, jsonOf } from "./call.js";
import { forgetCalculations } from "./remembered.js";

const ITEM = "attnviz", MOST = 200_001, LOST = 5000; // characters that are sent of a longer item; milliseconds for an answer

export default function ({ data, parentElement, setTriggerValue }) {
  const call = begun(parentElement), { session, heard, forgets, text } = jsonOf(data);
  if (document.attnvizProgress?.session !== session) document.attnvizProgress = { session, known: null, number: 0, forgets: 0, sentAt: 0 };
  const at = document.attnvizProgress; // of the document: it ends with the session, and pages mount the component again
  const item = () => { try { return localStorage.getItem(ITEM); } catch { return null; } };
  const send = (held) => {
    Object.assign(at, { known: held, number: at.number + 1, sentAt: performance.now() });
    setTriggerValue("stored", { number: at.number, text: held?.slice(0, MOST) ?? null });
  };
  const write = () => {
    try {
      localStorage.setItem(ITEM, text);
      at.known = text;
    } catch {
      if (!at.blocked) setTriggerValue("blocked", true);
      at.blocked = true;
    }
  };
  window.addEventListener("storage", ({ key }) => { if (key === ITEM || key === null) look(); }, { signal: call.signal });
  const look = () => { const held = item(); if (held !== at.known) send(held); };

  if (forgets > at.forgets) {
    Object.assign(at, { forgets, known: null });
    try { localStorage.removeItem(ITEM); } catch { /* it holds nothing then */ }
    forgetCalculations();
  }
  const held = item(), unheard = heard < at.number;
  if (held !== at.known || (unheard && performance.now() - at.sentAt > LOST)) send(held);
  else if (text !== null && text !== held && !unheard) write();
  return call.end;
}

// Sends whether the screen is as narrow as a phone's where the server does not know it, and when it changes.
import { begun, jsonOf } from "./call.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const call = begun(parentElement), phone = matchMedia("(max-width: 640px)"), { narrow } = jsonOf(data);
  const tell = () => { if (phone.matches !== narrow) setTriggerValue("narrow", phone.matches); };
  phone.addEventListener("change", tell, { signal: call.signal });
  tell();
  return call.end;
}

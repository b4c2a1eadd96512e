// Imports the scripts that preload.py names, when the browser is idle. A drawing alone, without sidebar, needs none of them.
import { sidebar } from "./page.js";

let begun = false;

export default function ({ data }) {
  if (begun) return;
  begun = true;
  const scripts = JSON.parse(new TextDecoder().decode(data));
  const load = () => sidebar() && scripts.forEach((each) => import(new URL(each, document.baseURI).href).catch(() => {}));
  setTimeout(() => (window.requestIdleCallback ?? setTimeout)(load), 700);
}

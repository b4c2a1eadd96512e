// Imports the scripts that preload.py names, when the browser is idle. A drawing alone, without sidebar, needs none of them.
import { sidebar } from "./page.js";

let started = false;

export default function ({ data }) {
  if (started) return;
  started = true;
  const scripts = JSON.parse(new TextDecoder().decode(data));
  const load = () => sidebar() && scripts.forEach((each) => import(new URL(each, document.baseURI).href).catch(() => {}));
  setTimeout(() => (window.requestIdleCallback ?? setTimeout)(load), 700);
}

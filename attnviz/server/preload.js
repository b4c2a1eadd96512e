// Imports the scripts that preload.py names, when the browser is idle. A drawing alone, without sidebar, needs none of them.
const scripts = JSON.parse(new TextDecoder().decode(data)), whole = () => document.querySelector("[data-testid=stSidebar]");
const load = () => whole() && scripts.forEach((each) => import(new URL(each, document.baseURI).href).catch(() => {}));
setTimeout(() => (window.requestIdleCallback ?? setTimeout)(load), 700);

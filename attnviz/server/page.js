// What the app's scripts know of Streamlit's page: the elements that they find by its test ids and classes, and its states. Observed
// in Streamlit 1.67; a version with other names is noticed by tests/browser. Can be removed when components can ask for them.
const byTestId = (id, root = document) => root.querySelector(`[data-testid=${id}]`);

export const CHART = ".stPlotlyChart", ELEMENT = ".stElementContainer", PAGE_LINK = "[data-testid=stPageLink-NavLink]";
export const main = () => byTestId("stMain"), mainBlock = () => byTestId("stMainBlockContainer"); // what scrolls, and its contents
export const app = () => byTestId("stApp"); // what Streamlit draws, but for what lies above all of it, as popovers do
export const sidebar = () => byTestId("stSidebar");
export const bottom = () => byTestId("stBottom"); // the bar fixed at the bottom; …
export const bottomBlock = () => byTestId("stBottomBlockContainer"); // … its contents
export const background = () => getComputedStyle(document.querySelector(".stApp")).backgroundColor;
export const headings = () => [...main().querySelectorAll("h1, h2, h3")];
export const withComponents = () => [document, ...[...document.querySelectorAll("[data-testid=stBidiComponentIsolated] *")].flatMap((each) => each.shadowRoot ?? [])];
export const isPending = (element) => byTestId("stSkeleton", element) !== null;

// Whether no run of the script is going on.
export const isIdle = () => document.querySelector("[data-test-script-state=notRunning]") !== null;

// Whether a run is going on that has not drawn this element again; it may be in a component.
export const isOutdated = (element) => (element.getRootNode().host ?? element).closest("[data-stale=true]") !== null;

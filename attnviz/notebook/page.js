// In place of server/page.js, in a page that is not Streamlit's: what the components ask of the page around them.
export const background = () => getComputedStyle(document.body).backgroundColor;
export const headings = () => [...document.querySelectorAll("h1")];
export const bottom = () => null; // a bar fixed at the bottom
export const isIdle = () => true;

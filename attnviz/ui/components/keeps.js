// Says at once whether this browser keeps progress, which the server learns only after its first drawing: what is for a person without
// any then keeps its place without being shown (server/page_style.css). Without it, it is shown until the progress has come.
export const ITEM = "attnviz"; // of local storage

try {
  document.documentElement.toggleAttribute("data-keeps", localStorage.getItem(ITEM) !== null);
} catch { /* a browser that lets nobody read its storage keeps none */ }

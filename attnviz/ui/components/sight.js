// Scrolls the page so that something is in sight, between the header and the bar at the bottom.
import { above, barBox, isCalm } from "./call.js";
import { main } from "../../server/page.js";

const MARGIN = 12; // pixels below it

// Pixels to scroll: what fits between the header and the bar is shown whole, other things from their beginning.
export function away(box) {
  const top = above(), bar = barBox();
  const end = (bar.top > 0 ? bar.top : window.innerHeight) - MARGIN; // in a wide presentation the bar is beside the drawing
  const fits = box.height <= end - top;
  return box.top < top || !fits ? box.top - top : Math.max(0, box.bottom - end);
}

export function toSight(box, atOnce = false) {
  const by = away(box);
  if (Math.abs(by) > 1) main().scrollBy({ top: by, behavior: atOnce || isCalm() ? "auto" : "smooth" });
}

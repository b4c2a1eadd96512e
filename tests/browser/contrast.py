"""The contrast of every text on a page with what is behind it, also inside components.

axe-core leaves text undecided where its background is partly covered, as each wrapped line of code is by the next one,
and reports only what it has decided; it skips SVG text. Here each text node is measured, through all shadow roots: its
colour and opacity over the backgrounds of the elements that contain it. Text on a picture is left out.
"""

from typing import NamedTuple

from playwright.sync_api import Page

LARGE = 3.0  # WCAG 2.2, 1.4.3: from 24 px on, or 18.66 px in bold
USUAL = 4.5

MEASURE = """() => {
    const ON_PICTURES = ".heatmap-label, .heatmap-label *, .barlayer text";  // over cells and bars of charts
    const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const rgba = (colour) => {  // [r, g, b, a] of any CSS colour
        if (!known.has(colour)) {
            pixel.clearRect(0, 0, 1, 1);
            pixel.fillStyle = colour;
            pixel.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
            known.set(colour, [r, g, b, a / 255]);
        }
        return known.get(colour);
    };
    const page = rgba(getComputedStyle(document.querySelector("[data-testid=stApp]")).backgroundColor).slice(0, 3);
    const over = (top, ground) => top.slice(0, 3).map((c, i) => top[3] * c + (1 - top[3]) * ground[i]);
    const outer = (each) => each.assignedSlot ?? each.parentElement ?? each.getRootNode().host ?? null;
    const luminance = (rgb) => rgb.map((c) => c / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);

    // What is behind a text at a point, and its opacity; null where that is a picture, or of a disabled control.
    const behind = (element, x, y) => {
        const layers = [];
        let opacity = 1;
        for (let each = element; each; each = outer(each)) {
            const style = getComputedStyle(each);
            opacity *= Number(style.opacity);
            if (each.matches(":disabled, [aria-disabled=true]")) return null;
            const box = each.getBoundingClientRect();  // a slider's value is beside the thumb that contains it
            if (style.overflow === "visible" && style.display !== "contents" && style.display !== "inline" &&
                (x < box.left || x > box.right || y < box.top || y > box.bottom)) continue;
            if (style.backgroundImage !== "none") return null;
            const colour = rgba(style.backgroundColor);
            if (colour[3]) layers.push(colour);
            if (colour[3] === 1) break;
        }
        return { opacity, ground: layers.reverse().reduce((ground, layer) => over(layer, ground), page) };
    };
    const boxOf = (node, element) => {  // null where the text is not seen
        if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return null;
        const range = document.createRange();
        range.selectNodeContents(node);
        const box = range.getClientRects()[0], own = element.getBoundingClientRect();
        return box && box.width > 1 && box.height > 1 && own.width > 1 && own.height > 1 ? box : null;
    };

    const found = [];
    const visit = (root) => {
        const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
        for (let node = walker.currentNode; node; node = walker.nextNode()) {
            if (node.shadowRoot) visit(node.shadowRoot);
            const element = node.parentElement;
            if (node.nodeType !== Node.TEXT_NODE || !node.data.trim() || !element) continue;
            if (element.matches(`style, script, title, option, noscript, ${ON_PICTURES}`)) continue;
            const box = boxOf(node, element);
            const place = box && behind(element, box.left + box.width / 2, box.top + box.height / 2);
            if (!place) continue;
            const style = getComputedStyle(element), svg = element.ownerSVGElement;
            const [r, g, b, a] = rgba(svg ? style.fill : style.color);
            const text = over([r, g, b, a * place.opacity], place.ground);
            const [low, high] = [luminance(text), luminance(place.ground)].sort((x, y) => x - y);
            const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
            const large = size >= 24 || (bold && size >= 18.66);
            found.push([node.data.trim().slice(0, 50), (high + 0.05) / (low + 0.05), large,
                root instanceof ShadowRoot, `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""}`]);
        }
    };
    visit(document);
    return found;
}"""


class Text(NamedTuple):
    """A text on the page."""

    text: str
    contrast: float
    is_large: bool
    in_component: bool
    element: str  # its tag and classes

    @property
    def is_readable(self) -> bool:
        """Check the contrast against that of WCAG 2.2, level AA."""
        return self.contrast >= (LARGE if self.is_large else USUAL) - 0.005


def texts_on(page: Page) -> list[Text]:
    """Return every text that is seen on the page, in the window or not."""
    return [Text(*each) for each in page.evaluate(MEASURE)]


def every_text_can_be_read(page: Page) -> None:
    """Check the contrast of every text, also inside components, in the page's present colours."""
    found = texts_on(page)
    assert len(found) > 20, page.url
    unreadable = [text for text in found if not text.is_readable]
    assert not unreadable, (page.url, unreadable[:9])

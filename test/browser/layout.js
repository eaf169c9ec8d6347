// Finds faults in the layout of a page: overflow, overlaps and cut text. Menus, dialogs and messages cover a page by
// design; they are left out of the comparison with the rest of the page.
function layoutFaults() {
  const faults = new Set();
  const layers = "dialog, #toasts, #thumbnail, .menu > div, #notice, .reading, .skip, .hidden";
  const name = e => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") +
    (typeof e.className === "string" && e.className ? "." + e.className.trim().replace(/\s+/g, ".") : "") +
    ` "${(e.textContent || e.value || "").trim().replace(/\s+/g, " ").slice(0, 40)}"`;

  // The visible part of a rectangle of an element, or nothing. The element itself cuts its text.
  function visible(e, r, isText = false) {
    let { left, top, right, bottom } = r;
    for (let p = e; p && p !== document.body; p = p.parentElement) {
      const style = getComputedStyle(p);
      if ((p !== e || isText) && style.overflowX !== "visible") {
        const box = p.getBoundingClientRect();
        left = Math.max(left, box.left); right = Math.min(right, box.right);
      }
      if ((p !== e || isText) && style.overflowY !== "visible") {
        const box = p.getBoundingClientRect();
        top = Math.max(top, box.top); bottom = Math.min(bottom, box.bottom);
      }
      if (style.position === "fixed") break;
    }
    return right - left > 2 && bottom - top > 2 ? { left, top, right, bottom } : undefined;
  }

  // Text and controls with their rectangles.
  function findAtoms() {
    const atoms = [];
    for (const e of document.querySelectorAll("body *")) {
      if (e.closest(layers) || e.closest("svg") && e.tagName !== "svg" || !e.checkVisibility()) continue;
      const control = e.matches("input, select, textarea, button, .button, summary, img, svg");
      const rects = [];
      if (control) rects.push(e.getBoundingClientRect());
      else for (const node of e.childNodes) {
        if (node.nodeType !== Node.TEXT_NODE || !node.textContent.trim()) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        rects.push(...range.getClientRects());
      }
      for (const r of rects) {
        const seen = visible(e, r, !control);
        if (seen) atoms.push({ e, ...seen });
      }
    }
    return atoms;
  }

  function findOverlaps(when) {
    const atoms = findAtoms();
    atoms.sort((a, b) => a.top - b.top);
    atoms.forEach((a, i) => {
      for (let j = i + 1; j < atoms.length && atoms[j].top < a.bottom - 2; j++) {
        const b = atoms[j];
        if (a.e === b.e || a.e.contains(b.e) || b.e.contains(a.e) || isInside(a.e, b.e)) continue;
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 && high > 2) faults.add(`${when}${name(a.e)} and ${name(b.e)} overlap by ${Math.round(wide)}x${Math.round(high)}`);
      }
    });
  }
  // A drawing may be in a search field, and a control may stay in view while its table is scrolled.
  function isInside(a, b) {
    if (a.closest(".search") && a.closest(".search") === b.closest(".search")) return true;
    const sticky = e => e.closest("td.do, .submit, #connection");
    return !!sticky(a) !== !!sticky(b) && getComputedStyle(sticky(a) ?? sticky(b)).position === "sticky";
  }

  // Whether an element is in a part of a card that scrolls sideways.
  function isScrolled(e, card) {
    for (let p = e.parentElement; p !== card; p = p.parentElement) {
      if (/auto|scroll/.test(getComputedStyle(p).overflowX)) return true;
    }
    return false;
  }

  function findOverflow(when) {
    const root = document.documentElement;
    if (root.scrollWidth > innerWidth) faults.add(`${when}the page is ${root.scrollWidth} wide in a window of ${innerWidth}`);
    for (const e of document.querySelectorAll("body *")) {
      if (e.closest("svg, .hidden, .skip") || !e.checkVisibility()) continue;
      const style = getComputedStyle(e), box = e.getBoundingClientRect();
      const card = e.parentElement.closest(".card, fieldset, .alert, .toolbar, .menu > div, header, .totals > *");
      if (card && visible(e, box) && style.position !== "absolute" && !e.closest(".menu > div") && !isScrolled(e, card)) {
        const around = card.getBoundingClientRect();
        if (box.right > around.right + 1 || box.left < around.left - 1) faults.add(`${when}${name(e)} is outside of ${name(card)}`);
      }
      if (e.matches("input, textarea, select, progress, iframe") || style.display === "inline") continue;
      const scrolls = /auto|scroll/.test(style.overflowX), shown = e.title || e.closest("[title]");
      const text = [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
      if (text && !scrolls && !shown && e.scrollWidth > e.clientWidth + 1) faults.add(`${when}the text of ${name(e)} is cut`);
      if (text && style.overflowY === "hidden" && !shown && e.scrollHeight > e.clientHeight + 2) faults.add(`${when}the text of ${name(e)} is cut below`);
    }
  }

  // Short words outside of code, paths and URLs are never broken. Other rules of the layout would allow narrow columns with broken words.
  function findBrokenWords() {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
    while (texts.nextNode()) {
      const node = texts.currentNode, e = node.parentElement;
      if (e.closest(layers) || e.closest("code, pre, textarea, script, option, svg, .xterm, .origin") || !e.checkVisibility()) continue;
      for (const word of node.data.matchAll(/\p{L}{2,20}/gu)) {
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
        if (tops.size > 1) faults.add(`the word ${word[0]} of ${name(e)} is broken`);
      }
    }
  }

  findOverflow("");
  findOverlaps("");
  findBrokenWords();

  // The rules of :hover apply to all elements together.
  const sheet = new CSSStyleSheet(), rules = [];
  const copy = (list, open, close) => {
    for (const rule of list) {
      if (rule instanceof CSSMediaRule) copy(rule.cssRules, `@media ${rule.conditionText} {`, "}");
      else if (rule.selectorText?.includes(":hover")) rules.push(open + rule.cssText.replaceAll(":hover", ":not(.never)") + close);
    }
  };
  for (const s of document.styleSheets) copy(s.cssRules, "", "");
  sheet.replaceSync(rules.join("\n"));
  const before = document.adoptedStyleSheets;
  document.adoptedStyleSheets = [...before, sheet];
  findOverflow("hovered: ");
  findOverlaps("hovered: ");
  document.adoptedStyleSheets = before;

  // An open menu is in the window.
  for (const menu of document.querySelectorAll("details.menu")) {
    if (!menu.checkVisibility()) continue;
    const was = menu.open;
    menu.open = true;
    const box = menu.querySelector(":scope > div")?.getBoundingClientRect();
    if (box && (box.left < 0 || box.right > innerWidth)) faults.add(`the menu ${name(menu)} is outside of the window`);
    menu.open = was;
  }
  return [...faults].join("\n");
}

// The pages with the list and with one VM.
import { ask, keyed } from "./key";
import { showTimes } from "./page";
import "./charts";
import "./definition";
import "./upload";

/** Selection of VMs in the list. */
const bulk = document.querySelector<HTMLFormElement>("#bulk");
function boxes(): HTMLInputElement[] {
  return [...document.querySelectorAll<HTMLInputElement>("#rows input[name=vm]")];
}
function showSelection(): void {
  const all = boxes(), chosen = all.filter(b => b.checked).length;
  const head = bulk?.querySelector<HTMLInputElement>("[data-all]");
  if (!head) return;
  head.checked = chosen > 0 && chosen === all.length;
  head.indeterminate = chosen > 0 && chosen < all.length;
  for (const b of bulk!.querySelectorAll<HTMLButtonElement>("button[name=do]")) b.disabled = chosen === 0;
}
if (bulk) {
  document.addEventListener("change", e => {
    const box = e.target as HTMLInputElement;
    if (box.matches("[data-all]")) for (const b of boxes()) b.checked = box.checked;
    showSelection();
  });
  document.addEventListener("parts", showSelection);
  showSelection();
}

/** Columns that the user has hidden, kept in the browser. */
const styles = new CSSStyleSheet();
document.adoptedStyleSheets = [styles];
function hiddenColumns(): string[] {
  try { return JSON.parse(localStorage.getItem("hidden-columns") ?? "[]") as string[]; } catch { return []; }
}
function hideColumns(names: string[]): void {
  styles.replaceSync(names.filter(n => /^[a-z]+$/.test(n)).map(n => `#vms .col-${n} { display: none }`).join("\n"));
}
hideColumns(hiddenColumns());
for (const box of document.querySelectorAll<HTMLInputElement>("[data-column]")) {
  box.checked = !hiddenColumns().includes(box.dataset.column!);
  box.addEventListener("change", () => {
    const names = hiddenColumns().filter(n => n !== box.dataset.column);
    if (!box.checked) names.push(box.dataset.column!);
    localStorage.setItem("hidden-columns", JSON.stringify(names));
    hideColumns(names);
  });
}

/** The list is filtered while one types. */
const search = document.querySelector<HTMLInputElement>("[data-search]");
let typing = 0;
search?.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const address = new URL(location.href);
    address.searchParams.set("q", search.value);
    address.searchParams.delete("page");
    void load(address);
  }, 250);
});
async function load(address: URL): Promise<void> {
  const answer = await ask(address, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  history.replaceState(null, "", address);
  document.querySelector("main .table")?.replaceWith(page.querySelector("main .table") ?? "");
  document.querySelector("#pager")?.replaceWith(page.querySelector("#pager") ?? "");
  document.body.dataset.live = page.body.dataset.live;
  document.dispatchEvent(new Event("live"));
}

/** A row shows its screen when one points at its name. */
let hovered = 0;
document.addEventListener("mouseover", e => {
  const link = (e.target as Element).closest<HTMLElement>("[data-preview]");
  clearTimeout(hovered);
  document.querySelector("#thumbnail")?.remove();
  if (!link) return;
  hovered = setTimeout(() => {
    const image = new Image();
    image.alt = "";
    image.onload = () => {
      const box = document.createElement("div"), place = link.getBoundingClientRect();
      box.id = "thumbnail";
      box.append(image);
      const at = new CSSStyleSheet();
      at.replaceSync(`#thumbnail { left: ${place.left + scrollX}px; top: ${place.bottom + scrollY + 6}px }`);
      document.adoptedStyleSheets = [styles, at];
      document.body.append(box);
    };
    image.src = keyed(link.dataset.preview!);
  }, 350);
});

/** The picture of a VM's screen is taken again while one looks at the page. */
setInterval(() => {
  if (document.hidden) return;
  const image = document.querySelector<HTMLImageElement>("img[data-refresh]");
  if (!image) return;
  const next = new Image();
  next.onload = () => { image.src = next.src; };
  next.src = keyed(image.dataset.src! + "?" + String(Date.now()));
}, 5000);

/** What a VM uses is loaded when the page is there, and again while one looks at it. */
async function loadUsage(): Promise<void> {
  const old = document.querySelector<HTMLElement>("[data-load]");
  if (!old || document.hidden) return;
  try {
    const answer = await ask(old.dataset.load!);
    if (!answer.ok) return;
    const template = document.createElement("template");
    template.innerHTML = await answer.text();
    const fresh = template.content.firstElementChild!;
    const details = fresh.querySelector("details");
    if (details) details.open = old.querySelector("details")?.open ?? false;
    showTimes(fresh);
    old.replaceWith(template.content);
  } catch { /* the stream of the page says that there is no connection */ }
}
void loadUsage();
setInterval(() => void loadUsage(), 30_000);
setInterval(() => { if (document.querySelector("[data-load][data-soon]")) void loadUsage(); }, 5000);

/** The current tab is in view. */
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

/** A table is filtered by what one types. */
document.querySelector<HTMLInputElement>("[data-filter]")?.addEventListener("input", e => {
  const words = (e.target as HTMLInputElement).value.toLowerCase().split(/\s+/);
  for (const row of document.querySelectorAll<HTMLElement>("#plan tbody tr")) {
    const text = row.textContent!.toLowerCase();
    row.hidden = !words.every(w => text.includes(w));
  }
});

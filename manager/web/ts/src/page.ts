// What every page does: it stays current by the stream of its parts, sends forms without
// loading itself, asks before what can't be undone, and shows times in the browser's zone.
import { ask, checkSession, keyed } from "./key";
import { showThumbnails } from "./thumbnails";

const lang = document.documentElement.lang;

/** Times are shown relative to now; the exact time is the title. */
export function showTimes(within: ParentNode): void {
  const relative = new Intl.RelativeTimeFormat(lang, { numeric: "auto", style: "narrow" });
  const exact = new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "medium" });
  for (const time of within.querySelectorAll<HTMLTimeElement>("time[data-ago]")) {
    const at = new Date(time.dateTime);
    time.title = exact.format(at);
    time.textContent = ago(relative, (at.getTime() - Date.now()) / 1000);
  }
}

function ago(format: Intl.RelativeTimeFormat, seconds: number): string {
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]] as const) {
    if (Math.abs(seconds) >= length) return format.format(Math.trunc(seconds / length), unit);
  }
  return format.format(Math.min(0, Math.trunc(seconds)), "second");
}

/** Screens are shown to scripts of the page only. */
function showPictures(within: ParentNode): void {
  for (const image of within.querySelectorAll<HTMLImageElement>("img[data-src]")) {
    if (!image.src) image.src = keyed(image.dataset.src!);
  }
  showThumbnails(within);
}

/** Shows a message for a while. */
export function toast(text: string, kind = "bad"): void {
  const box = document.createElement("div");
  box.className = kind;
  box.textContent = text;
  document.querySelector("#toasts")!.append(box);
  setTimeout(() => box.remove(), 4000 + 60 * text.length);
}

/** Asks a question, and reports whether the answer is yes. */
function sure(question: string): Promise<boolean> {
  const dialog = document.querySelector<HTMLDialogElement>("#question")!;
  dialog.querySelector("#question-text")!.textContent = question;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise(resolve =>
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

/** Puts a part of the page in place of the one with its id, unless it is the same. What a
 * user is typing, has ticked, opened or focused stays. */
function replace(fresh: Element): void {
  const old = document.getElementById(fresh.id);
  showTimes(fresh);
  showPictures(fresh);
  if (!old || old.outerHTML === fresh.outerHTML) return;
  const focus = document.activeElement;
  if (focus instanceof HTMLInputElement && focus.type !== "checkbox" && old.contains(focus) &&
      focus.value !== focus.defaultValue) {
    focus.addEventListener("blur", () => replace(fresh), { once: true });
    return;
  }
  const focused = focus && old.contains(focus) ? focus.id : "";
  for (const box of old.querySelectorAll<HTMLInputElement>("input[type=checkbox]:checked")) {
    const same = [...fresh.querySelectorAll<HTMLInputElement>("input[type=checkbox]")]
      .find(b => b.name === box.name && b.value === box.value);
    if (same) same.checked = true;
  }
  const open = [...old.querySelectorAll("details")].map(d => d.open);
  fresh.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? false; });
  const picture = old.querySelector<HTMLImageElement>("img[data-refresh]");
  if (picture) fresh.querySelector("img[data-refresh]")?.replaceWith(picture);
  old.replaceWith(fresh);
  if (focused) document.getElementById(focused)?.focus();
}

let stream: EventSource | undefined;

/** How long the server may say nothing, in milliseconds; it says every 5 seconds that it is alive (live.go). */
const patience = 12_000;
let heard = Date.now();

/** Shows whether the server answers: a page that is out of date must not look alive. */
function showLost(lost: boolean): void {
  const banner = document.querySelector<HTMLElement>("#connection");
  if (!banner) return;
  banner.hidden = !lost;
  document.body.classList.toggle("lost", lost);
}

function hear(): void {
  heard = Date.now();
  showLost(false);
}

/** Follows the stream of the page's parts. */
function follow(address: string): void {
  stream?.close();
  stream = new EventSource(address);
  for (const event of ["open", "alive", "parts"]) stream.addEventListener(event, hear);
  stream.addEventListener("error", () => {
    showLost(true);
    if (stream!.readyState !== EventSource.CLOSED) return; // it tries again by itself
    void checkSession().then(() => setTimeout(() => follow(address), 5000));
  });
  stream.addEventListener("parts", e => {
    const template = document.createElement("template");
    template.innerHTML = (e as MessageEvent<string>).data;
    for (const part of [...template.content.children]) replace(part);
    document.dispatchEvent(new Event("parts"));
  });
  stream.addEventListener("gone", () => { stream!.close(); location.reload(); });
}

/** Sends a form, and shows what is wrong if it is refused. */
async function send(form: HTMLFormElement, button: HTMLButtonElement | null): Promise<void> {
  const question = button?.dataset.question;
  if (question && !await sure(question)) return;
  const fields = new FormData(form, button ?? undefined);
  const body = new URLSearchParams([...fields].map(([k, v]) => [k, String(v)]));
  body.set("sure", "yes");
  form.setAttribute("aria-busy", "true");
  try {
    const answer = await ask(form.getAttribute("action")!, { method: "POST", body });
    if (!answer.ok) toast((await answer.text()).trim());
    else {
      for (const box of form.querySelectorAll<HTMLInputElement>("input:not([type=file])")) box.defaultValue = box.value;
      form.dispatchEvent(new Event("sent", { bubbles: true }));
    }
  } catch (e) {
    toast(String(e));
  } finally {
    form.removeAttribute("aria-busy");
  }
}

document.addEventListener("submit", e => {
  const form = e.target as HTMLFormElement;
  if (!form.matches("form[data-act]")) return;
  e.preventDefault();
  const button = e.submitter as HTMLButtonElement | null;
  button?.closest("details")?.removeAttribute("open");
  void send(form, button);
});

document.addEventListener("change", e => {
  const select = e.target as HTMLSelectElement;
  if (select.matches("select[data-submit]")) {
    void ask(select.form!.action, { method: "POST", body: new URLSearchParams({ language: select.value }) })
      .then(() => location.reload());
  }
});

/** A menu closes when something else is used. */
document.addEventListener("click", e => {
  for (const menu of document.querySelectorAll<HTMLDetailsElement>("details.menu[open]")) {
    if (!menu.contains(e.target as Node)) menu.open = false;
  }
});
document.addEventListener("keydown", e => {
  if (e.key !== "Escape") return;
  for (const menu of document.querySelectorAll<HTMLDetailsElement>("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary")!.focus();
  }
});

document.addEventListener("click", e => {
  const button = (e.target as Element).closest<HTMLElement>("[data-copy], [data-copy-from]");
  if (!button) return;
  const from = button.dataset.copyFrom;
  const text = from ? document.getElementById(from)!.textContent! : button.dataset.copy!;
  void navigator.clipboard.writeText(text).then(() => {
    button.dataset.done = "yes";
    setTimeout(() => delete button.dataset.done, 1500);
  });
});

showTimes(document);
showPictures(document);
setInterval(() => showTimes(document), 10_000);
setInterval(() => { if (stream && Date.now() - heard > patience) showLost(true); }, 1000);
function followPage(): void {
  if (document.body.dataset.live) follow(document.body.dataset.live);
}
document.addEventListener("live", followPage);
followPage();

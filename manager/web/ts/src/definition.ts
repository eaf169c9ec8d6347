// The form of a new VM says while one types what comes of it; without scripts a button does.
// A fault of a definition leads to its line.
import { ask } from "./key";

const form = document.querySelector<HTMLFormElement>("form[data-check]");
let typing = 0, latest = 0;

/** The hidden field with the suggestion for a field. */
const suggestion = '[name^="suggested."]';

form?.addEventListener("input", e => {
  const field = e.target as HTMLInputElement;
  if (field.name === "password") {
    const box = form.querySelector<HTMLInputElement>("[name=withpassword]")!;
    if (field.value === "" || box.checked) return;
    box.checked = true;
  }
  clearTimeout(typing);
  typing = setTimeout(() => void check(form), 400);
});

form?.addEventListener("submit", e => {
  if ((e.submitter as HTMLButtonElement | null)?.value !== "disk") return;
  e.preventDefault();
  void send(form, "disk").then(page => {
    const group = page?.querySelector("#group-disks");
    if (!group) return;
    document.querySelector("#group-disks")!.replaceWith(group);
    [...group.querySelectorAll("input")].pop()?.focus();
  });
});

/** Sends the form, but no password, and returns the page that it would become, unless it has been
 * sent again meanwhile. */
async function send(form: HTMLFormElement, what: string): Promise<Document | undefined> {
  const fields = new URLSearchParams([...new FormData(form)].map(([k, v]) => [k, String(v)]));
  fields.delete("password");
  fields.set("do", what);
  const number = ++latest;
  const answer = await ask(form.action, { method: "POST", body: fields }).catch(() => undefined);
  const text = answer?.ok ? await answer.text() : "";
  return text && number === latest ? new DOMParser().parseFromString(text, "text/html") : undefined;
}

/** Checks the form, and shows the answer. What one types in stays. */
async function check(form: HTMLFormElement): Promise<void> {
  const page = await send(form, "check");
  if (!page) return;
  showOptions(page);
  for (const fresh of page.querySelectorAll<HTMLElement>("form[data-check] .field")) showFaults(fresh);
  document.querySelector("#summary")?.replaceChildren();
  showPreview(page);
}

/** Shows the options of another type. */
function showOptions(page: Document): void {
  for (const id of ["#group-options", "#group-drivers"]) {
    const old = document.querySelector(id), fresh = page.querySelector(id);
    if (old && fresh && names(old) !== names(fresh)) old.replaceWith(fresh);
  }
}
function names(group: Element): string {
  return [...group.querySelectorAll("[name]")].map(f => f.id).join() + (group.querySelector("legend")?.textContent ?? "");
}

/** Shows what is wrong with a field. An error in a closed part of the form opens it. */
function showFaults(fresh: HTMLElement): void {
  const faults = fresh.querySelector(".faults");
  const old = faults && document.getElementById(faults.id);
  const field = old?.closest(".field");
  if (!faults || !old || !field) return;
  if (old.innerHTML !== faults.innerHTML) old.innerHTML = faults.innerHTML;
  field.classList.toggle("wrong", fresh.classList.contains("wrong"));
  if (fresh.classList.contains("wrong")) field.closest("details")?.setAttribute("open", "");
  const control = field.querySelector("[aria-describedby]");
  if (fresh.classList.contains("wrong")) control?.setAttribute("aria-invalid", "true");
  else control?.removeAttribute("aria-invalid");
  const hint = field.querySelector(":scope > .hint"), text = fresh.querySelector(":scope > .hint")?.textContent;
  if (hint && text) hint.textContent = text;
  showSuggestion(field, fresh);
  const choices = field.querySelector("select")?.options, said = fresh.querySelector("select")?.options;
  for (const [i, choice] of [...said ?? []].entries()) // what is left to a class, it may say otherwise
    if (choices?.[i]?.value === choice.value && choices[i].text !== choice.text) choices[i].text = choice.text;
}

/** Shows another suggestion in a field that the user has not changed. */
function showSuggestion(field: Element, fresh: Element): void {
  const suggested = field.querySelector<HTMLInputElement>(suggestion);
  const other = fresh.querySelector<HTMLInputElement>(suggestion);
  const input = field.querySelector<HTMLInputElement>("input, select, textarea");
  if (!suggested || !other || !input || input.value !== suggested.value) return;
  input.value = suggested.value = other.value;
}

/** Typing replaces a suggestion. */
form?.addEventListener("focusin", e => {
  const input = e.target as HTMLInputElement;
  const suggested = input.parentElement?.querySelector<HTMLInputElement>(suggestion);
  if (suggested && input.type === "text" && input.value === suggested.value) input.select();
});

/** Shows the definition, unless it is just being changed. */
function showPreview(page: Document): void {
  const old = document.querySelector("#preview"), fresh = page.querySelector("#preview");
  if (!old || !fresh) return;
  const open = old.querySelector("details")?.open ?? false;
  const details = fresh.querySelector("details");
  if (details) details.open = open;
  const text = old.querySelector<HTMLTextAreaElement>("textarea");
  const scrolled = old.scrollTop, inText = text?.scrollTop ?? 0;
  const typed = document.activeElement === text ? text : null;
  old.replaceWith(fresh);
  fresh.scrollTop = scrolled;
  const newText = fresh.querySelector<HTMLTextAreaElement>("textarea");
  if (typed && newText) { // with its selection, and all that can be undone
    newText.replaceWith(typed);
    typed.focus();
  }
  const shown = typed ?? newText;
  if (shown) shown.scrollTop = inText;
}

document.addEventListener("click", e => {
  const line = (e.target as Element).closest<HTMLElement>("[data-line]")?.dataset.line;
  const text = document.querySelector<HTMLTextAreaElement>("#text");
  if (!line || !text) return;
  const lines = text.value.split("\n"), at = Number(line) - 1;
  const start = lines.slice(0, at).reduce((sum, l) => sum + l.length + 1, 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[at]?.length ?? 0));
  text.scrollTop = text.scrollHeight / lines.length * Math.max(0, at - 3);
});

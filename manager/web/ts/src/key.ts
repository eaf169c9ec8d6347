// The page key: a second secret of a session. Browsers send cookies to every port of a host, so also to a guest's. A
// log-in leaves the key in the fragment of the address; here it gets into the storage, which is by port, too.
const name = "page-key";

const given = new URLSearchParams(location.hash.slice(1)).get(name);
if (given) {
  localStorage.setItem(name, given);
  history.replaceState(null, "", location.pathname + location.search);
}
function key(): string { return localStorage.getItem(name) ?? ""; }

/** Is fetch, with the page key. */
export function ask(address: string | URL, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (key()) headers.set("Vmop-Page-Key", key());
  return fetch(address, { ...options, headers });
}

/** Returns an address with the page key, for requests that have no headers of ours. */
export function keyed(address: string): string {
  const url = new URL(address, location.href);
  if (key()) url.searchParams.set(name, key());
  return url.href;
}

document.addEventListener("formdata", e => {
  if (key() && (e.target as HTMLFormElement).method === "post") e.formData.set(name, key());
});
document.addEventListener("click", e => {
  const link = (e.target as Element).closest<HTMLAnchorElement>('a[download][href^="/"]');
  if (link) link.href = keyed(link.href);
}, true);

/** Loads the page again if the session has ended: it says then how one logs in. */
export async function checkSession(): Promise<void> {
  const answer = await fetch(location.href, { method: "HEAD" }).catch(() => undefined);
  if (answer?.status === 401) location.reload();
}

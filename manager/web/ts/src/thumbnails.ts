// The list of one user's VMs shows the screens of running VMs. A screen is loaded when its row is in view, few at a
// time, and again every minute while one looks at the page.
import { ask } from "./key";

const age = 60_000, most = 2, pause = 1000;
const shown = new Map<string, { at: number, source: string }>();
const loading = new Set<string>();

/** Shows the known screens in a part of the page. */
export function showThumbnails(within: ParentNode): void {
  for (const image of within.querySelectorAll<HTMLImageElement>("img[data-thumbnail]")) {
    const known = shown.get(image.dataset.thumbnail!);
    if (known?.source) image.src = known.source;
  }
}

/** Returns the image in view whose screen is the oldest, if it is old enough. */
function nextImage(): HTMLImageElement | undefined {
  const at = (image: HTMLImageElement) => shown.get(image.dataset.thumbnail!)?.at ?? 0;
  return [...document.querySelectorAll<HTMLImageElement>("img[data-thumbnail]")].filter(image => {
    const place = image.getBoundingClientRect();
    return place.bottom > 0 && place.top < innerHeight && place.width > 0 &&
      !loading.has(image.dataset.thumbnail!) && Date.now() - at(image) > age;
  }).sort((a, b) => at(a) - at(b))[0];
}

function forget(address: string): void {
  URL.revokeObjectURL(shown.get(address)?.source ?? "");
  shown.delete(address);
}

async function load(address: string): Promise<void> {
  loading.add(address);
  let source = "";
  try {
    const answer = await ask(address);
    if (answer.ok) source = URL.createObjectURL(await answer.blob());
  } catch { /* the stream of the page says that there is no connection */ }
  const old = shown.get(address)?.source ?? "";
  shown.set(address, { at: Date.now(), source: source || old });
  showThumbnails(document);
  if (source && old) URL.revokeObjectURL(old);
  loading.delete(address);
}

function loadNext(): void {
  for (const address of shown.keys()) {
    if (!document.querySelector(`img[data-thumbnail="${CSS.escape(address)}"]`)) forget(address); // it has stopped
  }
  while (!document.hidden && loading.size < most) {
    const image = nextImage();
    if (!image) return;
    void load(image.dataset.thumbnail!).then(loadNext);
  }
}
setInterval(loadNext, pause);

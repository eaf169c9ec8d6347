// Files that become the data of disks: sent in pieces, each after the last byte that has arrived.
import { ask as request } from "./key";
import { toast } from "./page";

const pieceSize = 8 << 20, retry = 2000;
const list = document.querySelector<HTMLElement>("#uploads");

interface Upload { state: "Continue" | "Received" | "Imported" | "Unknown"; at: number }

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));

/** The box that shows how far a file is. */
class Box {
  private readonly root: HTMLElement;
  private begun = 0;
  private first = 0;
  readonly stop = new AbortController();

  constructor(readonly name: string, private readonly file: File) {
    const template = document.querySelector<HTMLTemplateElement>("#upload")!;
    this.root = (template.content.cloneNode(true) as DocumentFragment).firstElementChild as HTMLElement;
    this.root.querySelector("b")!.textContent = name;
    this.root.querySelector("progress")!.setAttribute("aria-label", name);
    this.root.querySelector("button")!.addEventListener("click", () => this.stop.abort());
    list!.append(this.root);
    list!.hidden = false;
  }

  say(text: string): void { this.root.querySelector("span")!.textContent = text; }

  /** Shows how much has arrived, and how long the rest takes at the speed until now. */
  reached(at: number): void {
    const now = Date.now(), size = this.file.size;
    if (!this.begun) { this.begun = now; this.first = at; }
    this.root.querySelector("progress")!.value = at / size;
    let text = `${Math.floor(100 * at / size)} %`;
    const speed = (at - this.first) / (now - this.begun);
    if (speed > 0 && now - this.begun > 3000) {
      const left = Math.ceil((size - at) / speed / 1000), two = (n: number) => String(n).padStart(2, "0");
      text += `, ${Math.floor(left / 3600)}:${two(Math.floor(left / 60) % 60)}:${two(left % 60)} ${list!.dataset.left!}`;
    }
    this.say(text);
  }

  close(): void {
    this.root.remove();
    list!.hidden = !list!.querySelector(".upload");
  }
}

/** Sends a file to an address of the JSON interface; a checksum that is given is that of the file. */
async function send(address: string, name: string, file: File, checksum = ""): Promise<void> {
  const box = new Box(name, file);
  const id = `${file.size}-${file.lastModified}-${file.name.slice(0, 60)}`;
  const ask = (method: string, from: number, body: Blob | null) => request(
    address + "?" + new URLSearchParams({ upload: id, size: String(file.size), from: String(from), checksum }).toString(),
    { method, body, signal: method === "PUT" ? box.stop.signal : null });
  let from = 0, known = false; // what has arrived is known
  let missing = 0; // another manager may learn of a new disk a moment later
  try {
    while (!box.stop.signal.aborted) {
      let answer: Response;
      try {
        answer = await ask("PUT", from, known ? file.slice(from, from + pieceSize) : null);
      } catch {
        if (box.stop.signal.aborted) break;
        await file.slice(from, from + 1).arrayBuffer().catch(() => { throw new Error(list!.dataset.unreadable); });
        box.say(list!.dataset.again!);
        known = false;
        await pause(retry);
        continue;
      }
      const said = await answer.json() as Upload & { detail: string };
      if (answer.status >= 500 || answer.status === 404 && ++missing < 5) {
        box.say(said.detail);
        known = false;
        await pause(retry);
        continue;
      }
      if (!answer.ok) throw new Error(said.detail);
      if (said.state === "Imported") {
        toast(`${name} ${list!.dataset.done!}`, "good");
        return;
      }
      known = said.state === "Continue";
      from = said.state === "Unknown" ? 0 : said.at;
      box.reached(from);
      if (said.state === "Received") box.say(list!.dataset.importing!);
    }
    await ask("DELETE", from, null);
  } catch (e) {
    toast(`${name}: ${(e as Error).message}`);
  } finally {
    box.close();
  }
}

if (list) {
  document.addEventListener("change", e => {
    const input = e.target as HTMLInputElement, file = input.files?.[0];
    if (!file) return;
    if (input.dataset.upload) {
      input.value = "";
      void send(input.dataset.upload, input.dataset.name!, file);
    } else if (input.id === "f-file") void describe(file);
  });
  document.querySelector("#newdisk")!.addEventListener("sent", () => {
    const input = document.querySelector<HTMLInputElement>("#f-file")!, file = input.files?.[0];
    if (!file || field("from").value !== "upload") return;
    const name = field("name").value.trim();
    input.value = "";
    void send(`/api/v1/disks/${field("kind").value}/${encodeURIComponent(name)}/data`, name, file,
      field("checksum").value.trim());
  });
  addEventListener("beforeunload", e => { if (!list.hidden) e.preventDefault(); });
}

function field(name: string): HTMLInputElement { return document.querySelector<HTMLInputElement>(`#f-${name}`)!; }

/** Fills in what a file says about the disk, where nothing has been typed. */
async function describe(file: File): Promise<void> {
  const words = file.name.toLowerCase().replace(/(\.(gz|xz|zst))?$/, "").split(".");
  const kind = words.length > 1 ? words.pop()! : "";
  const name = words.join("-").replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40);
  const kept = field("kind").value === "UploadedFile"; // a file of this computer keeps its name
  if (!field("name").value) field("name").value = kept ? file.name.replace(/^\.+/, "") : name;
  if (kept) return;
  if (kind === "iso") field("kind").value = "VirtualImage";
  const head = new DataView(await file.slice(0, 32).arrayBuffer());
  let bytes = 0;
  if (head.byteLength === 32 && head.getUint32(0) === 0x514649fb) bytes = Number(head.getBigUint64(24)); // qcow2
  else if (["iso", "img", "raw"].includes(kind) && file.name.toLowerCase().endsWith(kind)) bytes = file.size;
  if (bytes > 0 && !field("size").value) field("size").value = `${Math.ceil(bytes / 2 ** 20)} MiB`;
}

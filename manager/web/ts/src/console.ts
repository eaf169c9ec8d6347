// The window with the serial console of a VM.
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import "./page";
import { address, notice, occupied, refused, Retry } from "./stream";

// xterm.js makes <style> elements and takes no nonce: they get the page's before they are
// inserted, so that the page's policy needs no unsafe-inline.
const nonce = document.querySelector<HTMLMetaElement>("meta[name=style-nonce]")!.content;
const create = document.createElement;
document.createElement = function (this: Document, tag: string, options?: ElementCreationOptions) {
  const element = create.call(this, tag, options);
  if (tag === "style") element.setAttribute("nonce", nonce);
  return element;
} as typeof document.createElement;

const place = document.querySelector<HTMLElement>("#terminal")!;
const take = document.querySelector<HTMLButtonElement>("#take")!;
const terminal = new Terminal({ scrollback: 10_000, fontSize: 14, theme: { background: "#101218" } });
const fit = new FitAddon(), search = new SearchAddon(), retry = new Retry(), encoder = new TextEncoder();
terminal.loadAddon(fit);
terminal.loadAddon(search);
terminal.open(place);
fit.fit();
new ResizeObserver(() => fit.fit()).observe(place);

let socket: WebSocket | undefined;

function connect(mode: "type" | "watch" | "take"): void {
  const ws = new WebSocket(address(place.dataset.stream + "?mode=" + mode));
  ws.binaryType = "arraybuffer";
  socket = ws;
  let first = true;
  ws.onopen = () => {
    place.dataset.state = mode === "watch" ? "watching" : "connected";
    take.hidden = mode !== "watch";
    notice(mode === "watch" ? place.dataset.watching! : "");
    terminal.focus();
  };
  ws.onmessage = e => {
    if (first) terminal.reset(); // the stream begins with what the guest wrote last
    first = false;
    retry.reset();
    terminal.write(new Uint8Array(e.data as ArrayBuffer));
  };
  ws.onclose = e => {
    if (ws !== socket) return;
    place.dataset.state = "lost";
    if (e.code === refused) return location.reload(); // the page says why
    if (e.code === occupied) return connect("watch");
    notice(e.reason || place.dataset.lost!);
    retry.again(() => connect("type"));
  };
}
terminal.onData(data => {
  if (socket?.readyState === WebSocket.OPEN) socket.send(encoder.encode(data));
});
take.addEventListener("click", () => {
  const old = socket;
  connect("take");
  old?.close();
});

/** What the guest writes is read aloud if one wants that. It is off otherwise: then xterm.js ignores the
 * text of input methods. */
const reader = document.querySelector<HTMLInputElement>("#reader")!;
reader.checked = localStorage.getItem("screen-reader") === "yes";
terminal.options.screenReaderMode = reader.checked;
reader.addEventListener("change", () => {
  terminal.options.screenReaderMode = reader.checked;
  localStorage.setItem("screen-reader", reader.checked ? "yes" : "no");
  terminal.focus();
});

/** The text of the terminal with its scroll-back. */
function content(): string {
  const buffer = terminal.buffer.active;
  const lines = Array.from({ length: buffer.length }, (_, i) => buffer.getLine(i)!.translateToString(true));
  return lines.join("\n").trimEnd() + "\n";
}
document.querySelector("#copy")!.addEventListener("click", () => {
  void navigator.clipboard.writeText(terminal.getSelection() || content());
});
document.querySelector("#download")!.addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content()], { type: "text/plain" }));
  link.download = place.dataset.name + "-console.txt";
  link.click();
  URL.revokeObjectURL(link.href);
});
const find = document.querySelector<HTMLInputElement>("#find")!;
find.addEventListener("input", () => { search.findNext(find.value, { incremental: true }); });
find.addEventListener("keydown", e => {
  if (e.key !== "Enter") return;
  if (e.shiftKey) search.findPrevious(find.value);
  else search.findNext(find.value);
});

notice(place.dataset.connecting!);
connect("type");

// The window with the screen of a VM.
import RFB from "@novnc/novnc";
import { strokes, usual, type Stroke } from "./layouts";
import { toast } from "./page";
import { address, notice, occupied, refused, Retry } from "./stream";

const place = document.querySelector<HTMLElement>("#screen")!;
const scale = document.querySelector<HTMLInputElement>("#scale")!;
const retry = new Retry();
const take = document.querySelector<HTMLButtonElement>("#take")!;
let rfb: RFB | undefined;

function connect(mode: "type" | "watch" | "take"): void {
  notice(place.dataset.connecting!);
  const socket = new WebSocket(address(place.dataset.stream + "?mode=" + mode));
  let code = 0, why = "";
  socket.addEventListener("close", e => { code = e.code; why = e.reason; });
  const connection = rfb = new RFB(place, socket, { shared: true });
  connection.background = "#101218";
  connection.viewOnly = mode === "watch";
  fit(connection);
  connection.addEventListener("connect", () => {
    place.dataset.state = mode === "watch" ? "watching" : "connected";
    take.hidden = mode !== "watch";
    retry.reset();
    notice(mode === "watch" ? place.dataset.watching! : "");
    connection.focus();
  });
  connection.addEventListener("disconnect", () => {
    if (connection !== rfb) return;
    place.dataset.state = "lost";
    if (code === refused) return location.reload(); // the page says why
    if (code === occupied) return connect("watch");
    notice(why || place.dataset.lost!);
    retry.again(() => connect("type"));
  });
  connection.addEventListener("clipboard", e => {
    void navigator.clipboard?.writeText(e.detail.text).catch(() => undefined);
  });
}
function fit(connection: RFB): void {
  connection.scaleViewport = scale.checked;
  connection.clipViewport = !scale.checked;
  connection.dragViewport = !scale.checked;
}
take.addEventListener("click", () => {
  const old = rfb;
  rfb = undefined;
  old?.disconnect();
  connect("take");
});

/** Keysyms (X11) of the keys that the menu offers; those of letters and digits are their codes. */
const keysyms: Record<string, number> = {
  ControlLeft: 0xffe3, AltLeft: 0xffe9, AltRight: 0xfe03, ShiftLeft: 0xffe1, MetaLeft: 0xffeb, Backspace: 0xff08, Tab: 0xff09,
  Escape: 0xff1b, PrintScreen: 0xff61, Enter: 0xff0d,
};
function keysym(code: string): number {
  const f = /^F(\d+)$/.exec(code);
  if (f) return 0xffbd + Number(f[1]);
  return keysyms[code] ?? code.replace("Key", "").toLowerCase().charCodeAt(0);
}
function press(codes: string[]): void {
  for (const c of codes) rfb?.sendKey(keysym(c), c, true);
  for (const c of codes.reverse()) rfb?.sendKey(keysym(c), c, false);
  rfb?.focus();
}
for (const b of document.querySelectorAll<HTMLElement>("[data-keys]")) {
  b.addEventListener("click", () => {
    b.closest("details")?.removeAttribute("open");
    press(b.dataset.keys!.split(" "));
  });
}
for (const box of document.querySelectorAll<HTMLInputElement>("[data-hold]")) {
  box.addEventListener("change", () => {
    const code = box.dataset.hold + "Left";
    rfb?.sendKey(keysym(code), code, box.checked);
    rfb?.focus();
  });
}
document.querySelector("#cad")!.addEventListener("click", () => { rfb?.sendCtrlAltDel(); rfb?.focus(); });
scale.addEventListener("change", () => { if (rfb) fit(rfb); });
document.querySelector("#full")!.addEventListener("click", () => {
  void (document.fullscreenElement ? document.exitFullscreen() : place.requestFullscreen()).then(() => rfb?.focus());
});

/** Types a text on a keyboard with a layout, and returns the characters that it doesn't have. */
async function type(text: string, layout: string): Promise<string> {
  const keys = strokes(layout), missing = new Set<string>();
  const press = (char: string, stroke: Stroke) => {
    const held = [stroke.shift ? "ShiftLeft" : "", stroke.altgr ? "AltRight" : ""].filter(c => c);
    const sym = char === "\n" ? 0xff0d : char === "\t" ? 0xff09 : char.codePointAt(0)! < 0x100 ? char.codePointAt(0)! :
      0x1000000 | char.codePointAt(0)!;
    for (const code of held) rfb?.sendKey(keysym(code), code, true);
    rfb?.sendKey(sym, stroke.code, true);
    rfb?.sendKey(sym, stroke.code, false);
    for (const code of held) rfb?.sendKey(keysym(code), code, false);
  };
  for (const char of text.replaceAll("\r\n", "\n")) {
    const stroke = keys.get(char);
    if (!stroke) missing.add(char);
    for (const s of stroke ?? []) {
      press(s.code === "Space" ? " " : char, s);
      await new Promise(done => setTimeout(done, 15)); // guests lose keys that come too fast
    }
  }
  return [...missing].join(" ");
}
const typing = document.querySelector<HTMLDialogElement>("#typing")!;
const text = typing.querySelector("textarea")!, layout = typing.querySelector("select")!;
layout.value = localStorage.getItem("keyboard") ?? usual(navigator.language);
layout.addEventListener("change", () => localStorage.setItem("keyboard", layout.value));
document.querySelector("#paste")!.addEventListener("click", () => {
  typing.returnValue = "";
  typing.showModal();
});
typing.addEventListener("close", () => {
  if (typing.returnValue === "clipboard") rfb?.clipboardPasteFrom(text.value);
  if (typing.returnValue === "type") {
    void type(text.value, layout.value).then(missing => {
      if (missing) toast(place.dataset.untyped! + " " + missing);
    });
  }
  text.value = "";
  rfb?.focus();
});

connect("type");

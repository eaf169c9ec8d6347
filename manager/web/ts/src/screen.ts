// The window with the screen of a VM.
import RFB from "@novnc/novnc";
import "./page";
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
  ControlLeft: 0xffe3, AltLeft: 0xffe9, ShiftLeft: 0xffe1, MetaLeft: 0xffeb, Backspace: 0xff08, Tab: 0xff09,
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

/** Where the characters are on a US keyboard: a code, and whether with Shift. */
const us = new Map<string, [string, boolean]>();
for (const [code, plain, shifted] of [
  ["Backquote", "`", "~"], ["Minus", "-", "_"], ["Equal", "=", "+"], ["BracketLeft", "[", "{"], ["BracketRight", "]", "}"],
  ["Backslash", "\\", "|"], ["Semicolon", ";", ":"], ["Quote", "'", "\""], ["Comma", ",", "<"], ["Period", ".", ">"],
  ["Slash", "/", "?"], ["Space", " ", " "], ["Enter", "\n", "\n"], ["Tab", "\t", "\t"],
  ...[..."1234567890"].map((d, i) => ["Digit" + d, d, "!@#$%^&*()"[i]]),
  ...[..."abcdefghijklmnopqrstuvwxyz"].map(c => ["Key" + c.toUpperCase(), c, c.toUpperCase()]),
]) {
  us.set(shifted, [code, true]);
  us.set(plain, [code, false]);
}
async function type(text: string): Promise<void> {
  for (const c of text.replaceAll("\r\n", "\n")) {
    const key = us.get(c);
    const sym = c === "\n" ? 0xff0d : c === "\t" ? 0xff09 : c.codePointAt(0)! < 0x100 ? c.codePointAt(0)! :
      0x1000000 | c.codePointAt(0)!;
    if (key?.[1]) rfb?.sendKey(0xffe1, "ShiftLeft", true);
    rfb?.sendKey(sym, key?.[0] ?? null, true);
    rfb?.sendKey(sym, key?.[0] ?? null, false);
    if (key?.[1]) rfb?.sendKey(0xffe1, "ShiftLeft", false);
    await new Promise(done => setTimeout(done, 15)); // guests lose keys that come too fast
  }
}
const typing = document.querySelector<HTMLDialogElement>("#typing")!;
const text = typing.querySelector("textarea")!;
document.querySelector("#paste")!.addEventListener("click", () => {
  typing.returnValue = "";
  typing.showModal();
});
typing.addEventListener("close", () => {
  if (typing.returnValue === "type") void type(text.value);
  text.value = "";
  rfb?.focus();
});

connect("type");

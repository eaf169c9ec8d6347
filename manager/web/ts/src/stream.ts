// A websocket to a VM that connects again when the VM ends the stream: after a reset of the
// server, a restart or a migration of the VM.

import { checkSession, keyed } from "./key";

/** The codes with which the server ends a stream (stream.go). */
export const refused = 4001, occupied = 4002;

/** The address of a stream. */
export function address(path: string): string {
  const url = new URL(keyed(path));
  url.protocol = url.protocol.replace("http", "ws");
  return url.href;
}

/** Shows a notice over the window; "" is none. */
export function notice(text: string): void {
  document.querySelector("#notice")!.textContent = text;
}

/** Waits before the next try: longer each time, and until the window is looked at. */
export class Retry {
  private delay = 500;

  reset(): void { this.delay = 500; }

  again(connect: () => void): void {
    const wait = this.delay;
    this.delay = Math.min(2 * wait, 10_000);
    setTimeout(() => {
      void checkSession();
      if (!document.hidden) return connect();
      document.addEventListener("visibilitychange", () => connect(), { once: true });
    }, wait);
  }
}

declare module "*.css";
declare module "@novnc/novnc" {
  export default class RFB {
    constructor(target: Element, urlOrChannel: string | WebSocket, options?: { shared?: boolean });
    background: string;
    scaleViewport: boolean;
    clipViewport: boolean;
    dragViewport: boolean;
    viewOnly: boolean;
    sendKey(keysym: number, code: string | null, down: boolean): void;
    sendCtrlAltDel(): void;
    clipboardPasteFrom(text: string): void;
    focus(): void;
    disconnect(): void;
    addEventListener(type: string, listener: (e: CustomEvent) => void): void;
  }
}

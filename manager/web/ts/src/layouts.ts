// Where the characters are on keyboards, so that a text can be typed in a guest that is set to
// one: the runner sends the guest keys, not characters.

/** A key with what is held meanwhile. */
export interface Stroke { code: string; shift: boolean; altgr: boolean }

/** The keys in rows, as in the strings below. */
const codes = [
  "Backquote", ..."1234567890".split("").map(d => "Digit" + d), "Minus", "Equal",
  ..."QWERTYUIOP".split("").map(c => "Key" + c), "BracketLeft", "BracketRight",
  ..."ASDFGHJKL".split("").map(c => "Key" + c), "Semicolon", "Quote", "Backslash",
  "IntlBackslash", ..."ZXCVBNM".split("").map(c => "Key" + c), "Comma", "Period", "Slash",
];

/** What keys make alone, with Shift and with AltGr; a blank is nothing. A dead one waits for the
 * next key: with Space it makes itself. */
interface Layout { plain: string; shift: string; altgr?: Record<string, string>; dead?: string }

const layouts: Record<string, Layout> = {
  "en-US": {
    plain: "`1234567890-=qwertyuiop[]asdfghjkl;'\\ zxcvbnm,./",
    shift: "~!@#$%^&*()_+QWERTYUIOP{}ASDFGHJKL:\"| ZXCVBNM<>?",
  },
  "en-GB": {
    plain: "`1234567890-=qwertyuiop[]asdfghjkl;'#\\zxcvbnm,./",
    shift: "¬!\"£$%^&*()_+QWERTYUIOP{}ASDFGHJKL:@~|ZXCVBNM<>?",
    altgr: { Digit4: "€" },
  },
  "de": {
    plain: "^1234567890ß´qwertzuiopü+asdfghjklöä#<yxcvbnm,.-",
    shift: "°!\"§$%&/()=?`QWERTZUIOPÜ*ASDFGHJKLÖÄ'>YXCVBNM;:_",
    altgr: {
      Digit2: "²", Digit3: "³", Digit7: "{", Digit8: "[", Digit9: "]", Digit0: "}", Minus: "\\", KeyQ: "@", KeyE: "€",
      BracketRight: "~", IntlBackslash: "|", KeyM: "µ",
    },
    dead: "^´`",
  },
  "de-CH": {
    plain: "§1234567890'^qwertzuiopü¨asdfghjklöä$<yxcvbnm,.-",
    shift: "°+\"*ç%&/()=?`QWERTZUIOPè!ASDFGHJKLéà£>YXCVBNM;:_",
    altgr: {
      Digit2: "@", Digit3: "#", Digit6: "¬", Digit7: "|", Minus: "´", Equal: "~", KeyE: "€", BracketLeft: "[",
      BracketRight: "]", Quote: "{", Backslash: "}", IntlBackslash: "\\",
    },
    dead: "^`¨´~",
  },
  "fr": {
    plain: "²&é\"'(-è_çà)=azertyuiop^$qsdfghjklmù*<wxcvbn,;:!",
    shift: " 1234567890°+AZERTYUIOP¨£QSDFGHJKLM%µ>WXCVBN?./§",
    altgr: {
      Digit2: "~", Digit3: "#", Digit4: "{", Digit5: "[", Digit6: "|", Digit7: "`", Digit8: "\\", Digit9: "^", Digit0: "@",
      Minus: "]", Equal: "}", KeyE: "€",
    },
    dead: "¨",
  },
  "es": {
    plain: "º1234567890'¡qwertyuiop`+asdfghjklñ´ç<zxcvbnm,.-",
    shift: "ª!\"·$%&/()=?¿QWERTYUIOP^*ASDFGHJKLÑ¨Ç>ZXCVBNM;:_",
    altgr: {
      Backquote: "\\", Digit1: "|", Digit2: "@", Digit3: "#", Digit4: "~", Digit6: "¬", KeyE: "€", BracketLeft: "[",
      BracketRight: "]", Quote: "{", Backslash: "}",
    },
    dead: "`^´¨",
  },
  "it": {
    plain: "\\1234567890'ìqwertyuiopè+asdfghjklòàù<zxcvbnm,.-",
    shift: "|!\"£$%&/()=?^QWERTYUIOPé*ASDFGHJKLç°§>ZXCVBNM;:_",
    altgr: {
      Digit7: "{", Digit8: "[", Digit9: "]", Digit0: "}", Minus: "`", Equal: "~", KeyE: "€", BracketLeft: "[",
      BracketRight: "]", Semicolon: "@", Quote: "#",
    },
  },
};

/** The layouts by the languages that they are the usual ones of. */
export const names = Object.keys(layouts);

const space: Stroke = { code: "Space", shift: false, altgr: false };

/** The keys that make each character of a layout. */
export function strokes(name: string): Map<string, Stroke[]> {
  const layout = layouts[name] ?? layouts["en-US"]!, all = new Map<string, Stroke[]>();
  const add = (char: string | undefined, stroke: Stroke) => {
    if (!char || char === " " || all.has(char)) return;
    all.set(char, layout.dead?.includes(char) ? [stroke, space] : [stroke]);
  };
  codes.forEach((code, i) => add(layout.plain[i], { code, shift: false, altgr: false }));
  codes.forEach((code, i) => add(layout.shift[i], { code, shift: true, altgr: false }));
  codes.forEach(code => add(layout.altgr?.[code], { code, shift: false, altgr: true }));
  all.set(" ", [space]);
  all.set("\n", [{ ...space, code: "Enter" }]);
  all.set("\t", [{ ...space, code: "Tab" }]);
  return all;
}

/** The layout that a browser's language suggests. */
export function usual(language: string): string {
  return names.find(n => n === language) ?? names.find(n => language.startsWith(n)) ??
    (/^en-(?!US)/.test(language) ? "en-GB" : "en-US");
}

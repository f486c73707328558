// Text of models and users: what would be invisible, or would turn the reading direction around, is shown by its code.

/** C0 and C1 controls but tab and line feed, zero-width characters, bidi controls, tags, line separators, half pairs. */
const UNSEEN =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|[\u{e0000}-\u{e007f}]/gu;

export interface Piece {
  text: string;
  /** The code of a character that would not be seen. */
  code: boolean;
}

/** The code of a character: `U+202E`. */
export function code(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A text in pieces, those that would not be seen apart. */
export function pieces(text: string): Piece[] {
  const out: Piece[] = [];
  let from = 0;
  for (const found of text.matchAll(UNSEEN)) {
    if (found.index > from) out.push({ text: text.slice(from, found.index), code: false });
    out.push({ text: code(found[0]), code: true });
    from = found.index + found[0].length;
  }
  if (from < text.length) out.push({ text: text.slice(from), code: false });
  return out;
}

/** A short name in one line, bounded, for titles and canvases. */
export function oneLine(text: string, most = 120): string {
  const shown = pieces(text.slice(0, most + 1).replace(/[\t\n]+/g, " "))
    .map((piece) => (piece.code ? `⟨${piece.text}⟩` : piece.text))
    .join("");
  return shown.length > most ? `${shown.slice(0, most)}…` : shown;
}

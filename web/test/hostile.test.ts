import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { oneLine, pieces } from "../src/words/hostile";

test("bidi overrides, controls and zero-width characters become codes", () => {
  for (const unseen of ["\u202e", "\u2066", "\u0007", "\u009b", "\u200b", "\ufeff", "\u2028", "\u{e0041}", "\ud800", "\r"]) {
    const found = pieces(`a${unseen}b`);
    expect(found.map((piece) => piece.code)).toEqual([false, true, false]);
    expect(found[1]!.text).toBe(`U+${unseen.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`);
  }
});

test("text that can be seen stays as it is", () => {
  const text = 'line\n\ttab <b onclick="x">é 数学 👍🏽 ∑</b>';
  expect(pieces(text)).toEqual([{ text, code: false }]);
});

test("nothing is lost", () => {
  const text = "\u202ea\u0000\u0000b\u200b";
  const back = pieces(text).map((piece) => (piece.code ? String.fromCodePoint(parseInt(piece.text.slice(2), 16)) : piece.text));
  expect(back.join("")).toBe(text);
});

test("a name is one line and bounded", () => {
  expect(oneLine("a\n\nb\u202e")).toBe("a b⟨U+202E⟩");
  expect(oneLine("x".repeat(500), 20)).toHaveLength(21);
});

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? sources(join(folder, entry.name)) : [join(folder, entry.name)],
  );
}

test("no source makes markup out of text, and none asks another server", () => {
  const files = sources("src").filter((name) => /\.(tsx?|css)$/.test(name));
  expect(files.length).toBeGreaterThan(30);
  for (const name of files) {
    const text = readFileSync(name, "utf8");
    expect(text, name).not.toMatch(/dangerouslySetInnerHTML|\.innerHTML|\.outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/);
    expect(text, name).not.toMatch(/https?:\/\/|@import|url\(/);
  }
});

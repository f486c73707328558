import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { en } from "../src/words/en";
import { zh } from "../src/words/zh";

const holes = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]).sort();

test("both languages have the same words", () => {
  expect(Object.keys(zh)).toEqual(Object.keys(en));
});

test("both languages fill in the same values", () => {
  for (const [word, text] of Object.entries(en)) expect(holes(zh[word as keyof typeof en]), word).toEqual(holes(text));
});

test("no word is empty, and Chinese is Chinese", () => {
  for (const [word, text] of Object.entries(zh)) {
    expect(text, word).toMatch(/[\u4e00-\u9fff]|^\w*$/);
    expect(text.length, word).toBeGreaterThan(0);
  }
});

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? sources(join(folder, entry.name)) : [join(folder, entry.name)]));
}

test("every word is used", () => {
  const text = sources("src").filter((name) => !/words.(en|zh)\.ts$/.test(name)).map((name) => readFileSync(name, "utf8")).join("\n");
  const prefixes = [...text.matchAll(/(?:`|named\(")(\w+)(?:\.\$\{|")/g)].map((found) => found[1]);
  const byId = [...text.matchAll(/`(\w+\.\w+)\.\$\{/g)].map((found) => found[1]!);
  for (const word of Object.keys(en)) {
    const used = text.includes(`"${word}"`) || prefixes.includes(word.split(".")[0]!) || byId.some((prefix) => word.startsWith(prefix));
    expect(used, word).toBe(true);
  }
});

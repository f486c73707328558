import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { compareWords } from "../src/words/compare";
import { en } from "../src/words/en";
import { evaluationsWords } from "../src/words/evaluations";
import { findingsWords } from "../src/words/findings";
import { gatesWords } from "../src/words/gates";
import { helpWords } from "../src/words/help";
import { itemsWords } from "../src/words/items";
import { learn, t, type Word } from "../src/state/settings";
import { projectWords } from "../src/words/project";
import { zh } from "../src/words/zh";

const pages: Record<string, readonly [string, string]> = { ...compareWords, ...evaluationsWords, ...findingsWords, ...gatesWords, ...helpWords, ...itemsWords, ...projectWords };
/** All words as pairs. */
const all: [word: string, english: string, chinese: string][] = [
  ...Object.entries(en).map(([word, text]): [string, string, string] => [word, text, zh[word as keyof typeof en]]),
  ...Object.entries(pages).map(([word, pair]): [string, string, string] => [word, ...pair]),
];

const holes = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]).sort();

test("both languages have the same words", () => {
  expect(Object.keys(zh)).toEqual(Object.keys(en));
});

test("both languages fill in the same values", () => {
  for (const [word, english, chinese] of all) for (const form of english.split("|")) expect(holes(chinese), word).toEqual(holes(form));
});

test("one of a thing is one", () => {
  learn({ "test.tokens": ["{n} token|{n} tokens", "{n} 词元"] });
  const tokens = (n: string | number) => t("test.tokens" as Word, { n });
  expect([tokens(1), tokens("1"), tokens(0), tokens(21), tokens("1,000")]).toEqual(["1 token", "1 token", "0 tokens", "21 tokens", "1,000 tokens"]);
});

/** Words with a number that is never 1. */
const NEVER_ONE = ["compare.overall", "findings.detectors", "gates.newest", "items.thinned", "task.cut", "task.noise.of", "text.cut"];

test("what is counted has a form for one of it", () => {
  for (const [word, english] of all) {
    if (!english.includes("|") && !NEVER_ONE.includes(word)) expect(english, word).not.toMatch(/\{n\}( \w+)? (characters|checkpoints|detectors|evaluations|findings|items|points|tasks|tokens|values|verdicts)\b/);
  }
});

test("no word is empty, and Chinese is Chinese", () => {
  for (const [word, english, chinese] of all) {
    expect(chinese, word).toMatch(/[\u4e00-\u9fff]|^\w*$/);
    expect(Math.min(english.length, chinese.length), word).toBeGreaterThan(0);
  }
});

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? sources(join(folder, entry.name)) : [join(folder, entry.name)]));
}

test("every word is used", () => {
  const text = sources("src").filter((name) => !/words.(en|zh|compare|evaluations|findings|gates|help|items|project)\.ts$/.test(name)).map((name) => readFileSync(name, "utf8")).join("\n");
  const prefixes = [...text.matchAll(/(?:`|named\(")(\w+)(?:\.\$\{|")/g)].map((found) => found[1]);
  const byId = [...text.matchAll(/`(\w+\.\w+)\.\$\{/g)].map((found) => found[1]!);
  for (const [word] of all) {
    const used = text.includes(`"${word}"`) || prefixes.includes(word.split(".")[0]!) || byId.some((prefix) => word.startsWith(prefix));
    expect(used, word).toBe(true);
  }
});

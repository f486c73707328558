// What a reader sets once: theme and language; kept in the browser, no cookie.

import { effect, signal } from "@preact/signals";
import type { compareWords } from "../words/compare";
import type { en } from "../words/en";
import type { evaluationsWords } from "../words/evaluations";
import type { findingsWords } from "../words/findings";
import type { gatesWords } from "../words/gates";
import type { helpWords } from "../words/help";
import type { itemsWords } from "../words/items";
import type { projectWords } from "../words/project";

export type Theme = "light" | "dark";
export type Language = "en" | "zh";
type Common = keyof typeof en;
type OfPages = typeof compareWords & typeof evaluationsWords & typeof findingsWords & typeof gatesWords & typeof helpWords & typeof itemsWords & typeof projectWords;
export type Word = Common | keyof OfPages;

type Dictionary = Record<Common, string>;
const load: Record<Language, () => Promise<Dictionary>> = {
  en: () => import("../words/en").then((module) => module.en),
  zh: () => import("../words/zh").then((module) => module.zh),
};
const dictionaries: Partial<Record<Language, Dictionary>> = {};
const ofPages: Record<string, readonly [en: string, zh: string]> = {};

/** Adds the words of a page that is there by now. */
export function learn(words: Record<string, readonly [en: string, zh: string]>): void {
  Object.assign(ofPages, words);
}

function look(word: string): string | undefined {
  const own = ofPages[word];
  if (own) return own[language.value === "zh" ? 1 : 0];
  return (dictionaries[language.value] as Record<string, string> | undefined)?.[word];
}

function stored(name: string): string | null {
  try {
    return localStorage.getItem(`midflight.${name}`);
  } catch {
    return null; // a page opened from disk may have no storage
  }
}

function store(name: string, text: string): void {
  try {
    localStorage.setItem(`midflight.${name}`, text);
  } catch {
    // the setting then lasts as long as the page
  }
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const chosen = signal<Theme | null>((stored("theme") as Theme | null) ?? null);
const system = signal<Theme>(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", (event) => (system.value = event.matches ? "dark" : "light"));

/** The theme that is shown. */
export const theme = signal<Theme>(chosen.value ?? system.value);
effect(() => {
  theme.value = chosen.value ?? system.value;
  document.documentElement.dataset["theme"] = theme.value;
});

/** The language that is shown: the browser's, until the reader switches. */
export const language = signal<Language>("en");
effect(() => {
  document.documentElement.lang = language.value === "zh" ? "zh-Hans" : "en";
});

/** Shows another language, as soon as its words are there. */
async function speak(wanted: Language): Promise<void> {
  dictionaries[wanted] ??= await load[wanted]();
  language.value = wanted;
}

/** The reader's language: chosen before, or the browser's. */
export function speakFirst(): Promise<void> {
  const browser = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
  return speak((stored("language") as Language | null) ?? browser);
}

/** Light becomes dark and dark becomes light. */
export function switchTheme(): void {
  chosen.value = theme.value === "dark" ? "light" : "dark";
  store("theme", chosen.value);
}

/** English becomes Chinese and Chinese becomes English. */
export function switchLanguage(): void {
  const wanted = language.value === "en" ? "zh" : "en";
  store("language", wanted);
  void speak(wanted);
}

/** Words in the reader's language; `{name}` in them is replaced, and of `one|many` that which `{n}` asks for is taken. */
export function t(word: Word, values: Record<string, string | number> = {}): string {
  const [one, many = one] = (look(word) ?? word).split("|") as [string, string?];
  return (String(values["n"]) === "1" ? one : many).replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** Words for something that a server names, if the dictionaries have them; else its own name. */
export function named(prefix: string, name: string): string {
  return look(`${prefix}.${name}`) ?? name;
}

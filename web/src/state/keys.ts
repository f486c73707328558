// Keys: one place that listens, so that a key means one thing at a time and nothing while one writes.

import { useEffect, useRef } from "preact/hooks";

export type Bindings = Record<string, (() => void) | undefined>;
const stack: { current: Bindings }[] = [];

function writing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (writing(event.target)) {
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  if (event.key === "Enter" && event.target instanceof Element && event.target.closest("a, button, summary")) return;
  for (let i = stack.length - 1; i >= 0; i--) {
    const action = stack[i]!.current[event.key];
    if (!action) continue;
    event.preventDefault();
    action();
    return;
  }
});

/** Keys that mean something while this component is there; those of inner components come first. */
export function useKeys(bindings: Bindings): void {
  const latest = useRef(bindings);
  latest.current = bindings;
  useEffect(() => {
    stack.push(latest);
    return () => void stack.splice(stack.indexOf(latest), 1);
  }, []);
}

/** Puts the pointer for writing into the page's search field. */
export function focusSearch(): void {
  document.querySelector<HTMLInputElement>("input[data-search]")?.focus();
}

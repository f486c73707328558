// A part of the page whose code comes when it is first shown.

import type { ComponentChildren, ComponentType } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

export type Load<Props = object> = () => Promise<ComponentType<Props>>;
const loaded = new Map<unknown, unknown>();

/** The component with these properties, as soon as it is there. */
export function Later<Props extends object>({ load, props, meanwhile = null }: { load: Load<Props>; props: Props; meanwhile?: ComponentChildren }) {
  const [, setCount] = useState(0);
  useLayoutEffect(() => {
    if (loaded.has(load)) return;
    void load().then((component) => {
      loaded.set(load, component);
      setCount((count) => count + 1);
    });
  }, [load]);
  const Part = loaded.get(load) as ComponentType<Props> | undefined;
  return Part ? <Part {...props} /> : <>{meanwhile}</>;
}

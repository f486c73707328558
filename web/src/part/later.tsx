// A page whose code comes when it is first opened.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Empty } from "./empty";

type Load = () => Promise<ComponentType>;
const loaded = new Map<Load, ComponentType>();

/** The page, as soon as it is there. */
export function Later({ page }: { page: Load }) {
  const [, setCount] = useState(0);
  useEffect(() => {
    if (loaded.has(page)) return;
    void page().then((component) => {
      loaded.set(page, component);
      setCount((count) => count + 1);
    });
  }, [page]);
  const Page = loaded.get(page);
  return Page ? <Page /> : <Empty what="loading" />;
}

// Types of what the server answers, out of its OpenAPI document. Needs a Python that has midflight: $PYTHON, or that of .venv.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const python = process.env.PYTHON ?? (existsSync(at("../.venv/bin/python")) ? at("../.venv/bin/python") : "python3");
const env = { PYTHONPATH: at("../src"), ...process.env };
const printed = execFileSync(python, ["-c", "import json; from midflight.panel.openapi import document; print(json.dumps(document()))"], { env });
const { components } = JSON.parse(printed);

/** The same schema without titles, which would be names of their own, and with numbers that JSON may lack as `Num`. */
function plain(node) {
  if (Array.isArray(node)) return node.map(plain);
  if (typeof node !== "object" || node === null) return node;
  if (node.anyOf?.some((one) => one.enum?.includes("NaN"))) {
    const others = node.anyOf.filter((one) => one.type === "null");
    return { tsType: ["Num", ...others.map(() => "null")].join(" | ") };
  }
  if (node.prefixItems) return { type: "array", items: plain(node.prefixItems), minItems: node.minItems, maxItems: node.maxItems };
  return Object.fromEntries(Object.entries(node).filter(([key, value]) => !(key === "title" && typeof value === "string")).map(([key, value]) => [key, plain(value)]));
}

const schemas = plain(components.schemas);
const properties = Object.fromEntries(Object.keys(schemas).map((name) => [name, { $ref: `#/components/schemas/${name}` }]));
const root = { title: "All", type: "object", properties, additionalProperties: false, components: { schemas } };
const bannerComment = '/** A number that JSON may lack: then it is one of three words. */\nexport type Num = number | "NaN" | "Infinity" | "-Infinity";';
mkdirSync(at("generated"), { recursive: true });
writeFileSync(at("generated/answers.d.ts"), await compile(root, "All", { bannerComment, additionalProperties: false, unreachableDefinitions: false, format: false }));

import { defineConfig } from "vitest/config";
import { viteSingleFile } from "vite-plugin-singlefile";

// `vite build` makes index.html and assets/ for the server; `vite build --mode report` makes report.html, all in one file.
export default defineConfig(({ mode }) => ({
  base: "/",
  plugins: mode === "report" ? [viteSingleFile({ removeViteModuleLoader: true })] : [],
  build: {
    target: "es2022",
    outDir: "../src/midflight/panel/static",
    emptyOutDir: mode !== "report",
    modulePreload: { polyfill: false },
    rollupOptions: { input: mode === "report" ? "report.html" : "index.html" },
  },
  server: { proxy: { "/api": process.env["MIDFLIGHT_SERVER"] ?? "http://127.0.0.1:8765" } },
  test: { environment: "happy-dom", include: ["test/**/*.test.{ts,tsx}"] },
}));

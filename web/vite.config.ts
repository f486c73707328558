import { defineConfig } from "vitest/config";
import { viteSingleFile } from "vite-plugin-singlefile";

const server = process.env["MIDFLIGHT_SERVER"] ?? "http://127.0.0.1:8765";

const FILES = [
  { name: "series", test: /src\/(chart\/(series_picture|smooth)|data\/(curves|live_runs)|part\/curve_grid|page\/run_findings)\./ },
  { name: "charts", test: /uplot|src\/(chart\/(?!matrix|at_cursor)|data\/decode|part\/swatch)/ },
  { name: "frame", test: /preact|preload-helper|src\/app\.|src\/(data\/(base64|request|answer|live)|state\/|words\/(numbers|hostile)|part\/(text|empty|later|interval|state|choices))\b/ },
];

// `vite build` makes index.html and assets/ for the server; `vite build --mode report` makes report.html, all in one file.
export default defineConfig(({ mode }) => ({
  base: "/",
  plugins: mode === "report" ? [viteSingleFile({ removeViteModuleLoader: true })] : [],
  build: {
    target: "es2022",
    outDir: "../src/midflight/panel/static",
    emptyOutDir: mode !== "report",
    modulePreload: false, // the server names the files of the page that is asked for
    manifest: mode === "report" ? false : "manifest.json", // by which the server says early what a page will ask for
    rollupOptions: {
      input: mode === "report" ? "report.html" : "index.html",
      // few files: what every page needs, what draws charts, what fetches series; many small ones compress worse
      output: mode === "report" ? {} : { codeSplitting: { includeDependenciesRecursively: false, groups: FILES } },
    },
  },
  server: { proxy: { "/api": server, "/login": server, "/logout": server } },
  test: { environment: "happy-dom", include: ["test/**/*.test.{ts,tsx}"] },
}));

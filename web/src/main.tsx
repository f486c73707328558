import { render } from "preact";
import "@preact/signals";
import { App } from "./app";
import { followLinks } from "./state/place";
import "./style/page.css";
import "./style/table.css";
import "./style/chart.css";
import "./style/pages.css";

document.addEventListener("click", followLinks);
render(<App />, document.getElementById("page")!);

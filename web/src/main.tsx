import { render } from "preact";
import "@preact/signals";
import { App } from "./app";
import { speakFirst } from "./state/settings";
import { followLinks } from "./state/place";
import "./style/page.css";
import "./style/bar.css";
import "./style/table.css";
import "./style/chart.css";

document.addEventListener("click", followLinks);
void speakFirst().then(() => render(<App />, document.getElementById("page")!));

// The frame around the pages: where one is, how the page hears of news, and what the keys are.

import { useEffect, useState } from "preact/hooks";
import { useAnswer, watching } from "./data/answer";
import { follow, link } from "./data/live";
import { report } from "./data/request";
import type { ProjectsAnswer } from "./data/answers";
import { useKeys, focusSearch } from "./state/keys";
import { go, href, place, value } from "./state/place";
import { language, switchLanguage, switchTheme, t, theme } from "./state/settings";
import { Empty } from "./part/empty";
import { Later, type Load } from "./part/later";
import { moment } from "./words/numbers";
import { Name } from "./part/text";

/** Pages, by the first part of their path; each is fetched when it is first opened. */
const load = new Map<string, Load>([
  ["", () => import("./page/project").then((module) => module.ProjectPage)],
  ["run", () => import("./page/run").then((module) => module.RunPage)],
  ["compare", () => import("./page/compare").then((module) => module.ComparePage)],
  ["items", () => import("./page/items").then((module) => module.ItemsPage)],
  ["findings", () => import("./page/findings").then((module) => module.FindingsPage)],
  ["gates", () => import("./page/gates").then((module) => module.GatesPage)],
  ["evaluations", () => import("./page/evaluations").then((module) => module.EvaluationsPage)],
]);

const loadHelp = () => import("./part/help").then((module) => module.Help);

void load.get(place.value.path[0] ?? "")?.(); // while the frame is drawn

const PAGES = ["", "compare", "items", "findings", "gates", "evaluations"] as const;
function Page() {
  const [first = "", second = ""] = place.value.path;
  const page = load.get(first);
  if (!page || (first === "run" && !/^\d+$/.test(second))) return <Empty what="match" />;
  return <Later load={page} props={{}} meanwhile={<Empty what="loading" />} />;
}

function ProjectChoice({ answer }: { answer: ProjectsAnswer | null }) {
  if (!answer || answer.projects.length < 2) return <span class="project-name">{answer?.projects[0] && <Name text={answer.projects[0].name} most={40} />}</span>;
  return (
    <select class="project-name" aria-label={t("nav.project")} value={value("project")} onChange={(event) => go("/", { project: event.currentTarget.value })}>
      <option value="">{t("nav.projects", { n: answer.projects.length })}</option>
      {answer.projects.map((one) => (
        <option key={one.name} value={one.name}>
          {one.name.slice(0, 60)} ({one.num_runs})
        </option>
      ))}
    </select>
  );
}

/** What a page keeps when one goes to another: the project, and the runs one looks at. */
function kept(page: string): Record<string, string> {
  const values: Record<string, string> = {};
  if (value("project")) values["project"] = value("project");
  const [first, second] = place.value.path;
  const run = first === "run" ? (second ?? "") : value("run");
  if (page === "items" && run) values["run"] = run;
  if ((page === "findings" || page === "compare") && run) values["runs"] = run;
  if ((page === "findings" || page === "compare") && value("runs")) values["runs"] = value("runs");
  return values;
}

function Bar({ answer, onHelp }: { answer: ProjectsAnswer | null; onHelp: () => void }) {
  const at = place.value.path[0] ?? "";
  return (
    <nav class="bar">
      <a class="mark" href={href("/", kept(""))}>
        <svg width="18" height="16" viewBox="0 0 16 16" aria-hidden="true">
          <path d="M1 12 5 8l3 2 7-7" />
          <path class="band" d="M1 15 5 11l3 2 7-7M1 9l4-4 3 2 7-7" />
        </svg>
        midflight
      </a>
      <ProjectChoice answer={answer} />
      <div class="pages">
        {PAGES.map((page) => (
          <a key={page} href={href(`/${page}`, kept(page))} aria-current={at === page || (page === "" && at === "run") ? "page" : undefined}>
            {t(`nav.${page || "runs"}`)}
          </a>
        ))}
      </div>
      <span class="spring" />
      {report ? (
        <span class="quiet">{t("report.made", { at: moment(report.made_at) })}</span>
      ) : (
        <span class={`link ${link.value}`} title={t("link.title")}>
          <i aria-hidden="true" /> {t(`link.${link.value}`)}
        </span>
      )}
      <button type="button" class="plain" onClick={switchLanguage} title={t("key.language")}>
        {language.value === "en" ? "中文" : "English"}
      </button>
      <button type="button" class="plain" onClick={switchTheme} title={t("key.theme")} aria-label={t("key.theme")}>
        {theme.value === "dark" ? "☀" : "☾"}
      </button>
      <button type="button" class="plain" onClick={onHelp} title={t("key.help")} aria-label={t("key.help")}>
        ?
      </button>
    </nav>
  );
}

/** The whole page. */
export function App() {
  const { value: answer } = useAnswer<ProjectsAnswer>("/api/projects", watching(null, ["new"]));
  const [help, setHelp] = useState(false);
  useKeys({ "?": () => setHelp(true), t: switchTheme, l: switchLanguage, "/": focusSearch });
  useEffect(() => {
    if (answer) follow(answer.since);
  }, [answer]);
  useEffect(() => {
    document.title = report?.title ?? ["midflight", ...place.value.path].join(" · ");
  }, [place.value]);
  return (
    <>
      <Bar answer={answer} onHelp={() => setHelp(true)} />
      <Page />
      {report?.left_out?.map((text) => (
        <p class="note left-out" key={text}>
          {t("chart.leftout", { what: text })}
        </p>
      ))}
      {help && <Later load={loadHelp} props={{ onClose: () => setHelp(false) }} />}
    </>
  );
}


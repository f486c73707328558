/** Words of the page Runs, which come with it: English and Chinese. */
export const projectWords = {
  "chart.grey": ["Too many runs to tell apart by colour: the first {n} rows of the table have one, the others are grey.", "运行过多，颜色不够区分：表中前 {n} 行着色，其余为灰色。"],
  "chart.runs": ["{n} of {total} runs", "{total} 个运行中的 {n} 个"],
  "project.compare": ["Compare these {n}", "比较这 {n} 个"],
  "project.count": ["{n} runs", "{n} 个运行"],
  "project.drawn": ["{n} drawn", "画出 {n} 个"],
  "project.more": ["show {n} rows", "显示 {n} 行"],
  "project.one": ["{n} run", "{n} 个运行"],
  "project.search": ["name, tag or key=value", "名称、标签或 键=值"],
  "project.some": ["first {n} of {total} runs", "{total} 个运行中的前 {n} 个"],
  "run.cost": ["eval. cost", "评测开销"],
  "run.findings": ["findings", "问题"],
  "run.spark": ["course", "走势"],
  "run.toggle": ["draw or hide (x)", "画出或隐藏（x）"],
} as const;

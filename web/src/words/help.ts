/** Words of the help, which come with it: English and Chinese. */
export const helpWords = {
  "help.marks": ["Marks on curves", "曲线上的标记"],
  "help.charts": ["Drag over a chart to zoom, double-click to see all. A click on a run's line sign hides or shows it.", "在图上拖动可放大，双击看全部。点击运行前的线条标记可隐藏或显示它。"],
  "help.title": ["Keys", "快捷键"],
  "key.next": ["next, previous run", "下一个、上一个运行"],
  "key.open": ["open the run", "打开运行"],
  "key.search": ["search", "搜索"],
  "key.toggle": ["draw the run or not", "画出或隐藏运行"],
  "marker.best.about": ["Measured best on the task that the pointer names; more of it, corrected for the choice, beside the task.", "在指针所示任务上测得最好；任务旁给出校正选择偏差后的数值。"],
  "marker.checkpoint.about": ["Kept under a path that the store knows: weights were evaluated from there, or judged by a gate.", "存于记录中已知的路径：权重曾从该处评测，或经门禁判定。"],
  "marker.evaluation.about": ["The weights of this step were evaluated; the pointer names the tasks and the weights.", "评测过这一步的权重；指针处给出任务与权重。"],
  "marker.finding.about": ["From the step where a detector sees something begin to the step where it was noticed.", "从检测器认为开始的步，到发现它的步。"],
  "marker.missing.about": ["It was due; the pointer says why there is no result.", "本应进行；指针处说明为何没有结果。"],
  "marker.promoted.about": ["Released after a verdict and not taken back; the pointer says as what.", "经判定后发布且未撤回；指针处说明发布为何。"],
  "marker.resume.about": ["Another attempt went on here; what earlier ones had beyond it is replaced.", "新一次尝试从这里继续；此前尝试在其后的内容被替换。"],
} as const;

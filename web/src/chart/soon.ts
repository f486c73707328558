// Drawing a few charts a frame: the first is on the screen before the last is drawn, and nothing stutters meanwhile.

type Task = () => void;

const MILLISECONDS_A_FRAME = 12;
const waiting = new Set<Task>();
let asked = false;

function drawSome(): void {
  const until = performance.now() + MILLISECONDS_A_FRAME;
  for (const task of waiting) {
    waiting.delete(task);
    task();
    if (performance.now() > until) break;
  }
  asked = waiting.size > 0;
  if (asked) requestAnimationFrame(drawSome);
}

/** Does a task in one of the next frames, in turn; the function that it returns takes it back. */
export function soon(task: Task): () => void {
  waiting.add(task);
  if (!asked) requestAnimationFrame(drawSome);
  asked = true;
  return () => waiting.delete(task);
}

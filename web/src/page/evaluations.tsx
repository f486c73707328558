export function EvaluationsPage() {
  return null;
}

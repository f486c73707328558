export function GatesPage() {
  return null;
}

// Rows of numbers as the server sends them: base64 of little-endian values.

/** The bytes that a base64 text stands for. */
export function bytes(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

/** Floats of a base64 text. */
export function floats(base64: string): Float32Array<ArrayBuffer> {
  return new Float32Array(bytes(base64).buffer);
}

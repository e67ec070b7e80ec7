// What a test file gives back after its last test. Files share processes, so support modules cannot register hooks when they are loaded.

const endings: (() => unknown)[] = [];

/** Calls `end` after the last test of the current file, and after its own hooks. What was registered last is ended first. */
export function atFileEnd(end: () => unknown): void {
  endings.push(end);
}

/** Called by setup.ts after each file. */
export async function endFile(): Promise<void> {
  for (const end of endings.splice(0).reverse()) await end();
}

/** CPU seconds of this process that earlier files are charged with. */
let charged = 0;

/** CPU seconds of the current file. `all`: those of this process and of its children so far. */
export function chargeFile(all: number): number {
  const seconds = all - charged;
  charged = all;
  return seconds;
}

// A process that another one has started ends with it, and only with it.

/** A signal to all processes of a terminal or a service is for the parent, which ends this process itself. */
export function endWithParent(): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
}

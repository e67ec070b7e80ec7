// Child processes that end with their parent, and fields of /proc/PID/stat (proc(5)).

/** A signal to all processes of a terminal or a service is for the parent, which ends this process itself. */
export function endWithParent(): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
}

/** Fields from the state (field 3) on: entry i is field i + 3. The name in brackets before them may hold anything. */
export const fieldsOfStat = (text: string): string[] => text.slice(text.lastIndexOf(')') + 2).split(' ');

// Child processes that end with their parent, and fields of /proc/PID/stat (proc(5)).

/**
 * Ends this process when its parent ends. Ignores SIGINT and SIGTERM, because the parent handles signals to the whole
 * process group.
 */
export function endWithParent(): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
}

/**
 * The fields starting with the state (field 3): entry i is field i + 3. The process name in front of them is in
 * parentheses and may contain any character.
 */
export const fieldsOfStat = (text: string): string[] => text.slice(text.lastIndexOf(')') + 2).split(' ');

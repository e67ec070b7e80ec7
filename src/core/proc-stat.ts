// What Linux tells of a process in /proc/PID/stat (proc(5)).

/** Fields from the state (field 3) on: entry i is field i + 3. The name in brackets before them may hold anything. */
export const fieldsOfStat = (text: string): string[] => text.slice(text.lastIndexOf(')') + 2).split(' ');

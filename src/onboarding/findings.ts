// What registration found out, in words for the person who registers and for the auditor who reads the report.

export interface Finding {
  /** info: found out. assumed: could not be known, this is what was taken. warning: look at it before it is served. */
  level: 'info' | 'assumed' | 'warning';
  /** Column it is about, if it is about one. */
  column?: string;
  text: string;
}

export class Findings {
  readonly list: Finding[] = [];

  info(text: string, column?: string): void {
    this.#add('info', text, column);
  }
  assumed(text: string, column?: string): void {
    this.#add('assumed', text, column);
  }
  warn(text: string, column?: string): void {
    this.#add('warning', text, column);
  }

  #add(level: Finding['level'], text: string, column?: string): void {
    this.list.push({ level, ...(column === undefined ? {} : { column }), text });
  }
}

/** `1 row`, `2 rows`. */
export const plural = (n: number, what: string): string => `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;

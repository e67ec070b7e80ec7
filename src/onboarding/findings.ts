// What registration found out, in words for the person who registers and for the auditor who reads the report.
import { SluiceError } from '../core/errors.ts';

export interface Finding {
  /** info: detected. assumed: could not be known, this is the default taken. warning: review before serving. */
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

/** The error that ends a registration, with every reason in its text. */
export const refusal = (text: string): SluiceError => new SluiceError('registration_refused', text);

/** `1 row`, `2 rows`. */
export const plural = (n: number, what: string): string => `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;

// The log as every room sees it: what happened, in words whose type cannot hold a value of an input.
import { type ErrorCode, SluiceError } from './errors.ts';
import type { LogEvent } from './log-events.ts';

declare const WORD: unique symbol;

/** A word of the program, of its configuration, or an id: never one of an input. A plain string is none. */
export type Word = string & { readonly [WORD]: true };

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'fatal';

type Field = Word | ErrorCode | number | boolean | null | undefined | readonly Word[] | readonly number[];

/** What a line has besides its words, by name in snake_case with its unit. */
export type LogFields = Readonly<Record<string, Field>>;

/** Takes a line. `says`: the line for a person; a machine reads `event` and `fields`. Never throws. */
export type Log = (level: LogLevel, event: LogEvent, says: Word, fields?: LogFields) => void;

export const SILENT: Log = () => {};

/** `` words`partition ${partition} was lost` ``: literal text around words and numbers. */
export function words(parts: TemplateStringsArray, ...holes: readonly (Word | number | bigint | boolean)[]): Word {
  return String.raw({ raw: parts }, ...holes) as Word;
}

/** Refuses `string` and patterns of it, and lets through what is spelled out in the program. */
export type Literal<T extends string> = Record<never, never> extends Record<T, 1> ? never : T;

/** A value of a closed list of the program, such as the state of a job. */
export const fixedWord = <const T extends string>(text: Literal<T>): Word => text as string as Word;

/**
 * A name that an operator gave or another component is known by: of a topic, a file, a model, a key, a host. Whoever calls this says that
 * it is none of an input; what came with a request is none either, until it was looked up.
 */
export const named = (text: string): Word => text.replaceAll(/\p{Cc}+/gu, ' ').slice(0, 500) as Word;

/** Names in a row: `a, b and c`. */
export const listed = (names: readonly Word[], between = ', '): Word => names.join(between) as Word;

/** Visible ASCII without spaces, at most so long as W3C and most proxies pass on. */
const ID = /^[\x21-\x7e]{1,128}$/;

/** An id, of a request for instance; null where the text is none. */
export const idOf = (text: string | undefined): Word | null =>
  text !== undefined && ID.test(text) ? (text as Word) : null;

const FRAMES = 8;
/** Names of errors of the system and of Node are upper case. */
const SYSTEM_CODE = /^[A-Z][A-Z0-9_]{1,60}$/;
const KIND = /^[A-Za-z][A-Za-z0-9_.]{0,60}$/;

/** Where an error was thrown, innermost first. Never a part of its message, which may span lines and look like a frame. */
export function framesOf(error: unknown): Word[] {
  if (!(error instanceof Error) || typeof error.stack !== 'string') return [];
  const { stack, message } = error;
  // A message that was changed after the error was made is not the one in the stack: only what follows the last line of text counts.
  const at = message === '' ? 0 : stack.indexOf(message);
  if (at < 0) return [];
  const lines = stack.slice(at + message.length).split('\n');
  const frames = lines.filter((line) => /^\s+at \S/.test(line)).map((line) => line.trim().replace(/^at /, ''));
  return frames.slice(0, FRAMES).map(named);
}

/** Kind and system code of an unknown error: `TypeError`, `Error ENOSPC`. */
export function kindOf(error: unknown): Word {
  if (!(error instanceof Error)) return words`something was thrown that is no error`;
  const { code } = error as NodeJS.ErrnoException;
  const kind = KIND.test(error.name) ? error.name : 'Error';
  return (typeof code === 'string' && SYSTEM_CODE.test(code) ? `${kind} ${code}` : kind) as Word;
}

/**
 * What may be said of an error: the sentence of a SluiceError that is about the server or what it needs, the catalogue's where it is
 * about an input or a bug, and of anything else its kind, because the message of JSON.parse, for one, quotes what it was given.
 */
export function saysOf(error: unknown): Word {
  if (!(error instanceof SluiceError)) return kindOf(error);
  const { fault, summary } = error.entry;
  if (error.code === 'internal_error') return kindOf(error.cause ?? error);
  return named(fault === 'input' || fault === 'bug' ? summary : error.message);
}

/** `code` of an error, and for one that nobody foresaw where it was thrown and what it came from. */
export function faultFields(error: unknown): LogFields {
  if (error instanceof SluiceError && error.code !== 'internal_error') {
    const { cause } = error;
    const known = cause === undefined || cause instanceof SluiceError;
    return { code: error.code, ...(known ? {} : { cause: kindOf(cause), cause_stack: framesOf(cause) }) };
  }
  const { cause } = (error ?? {}) as { cause?: unknown };
  return {
    code: 'internal_error',
    kind: kindOf(error),
    stack: framesOf(error),
    ...(cause === undefined ? {} : { cause: kindOf(cause), cause_stack: framesOf(cause) }),
  };
}

/** The sentence of an error of this program with its code and what mends it. */
export function withAction(error: SluiceError): Word {
  return words`${saysOf(error)} [${fixedWord(error.code)}]. ${named(error.entry.action)}`;
}

/** Any error in one line: what may be said of it, and of an unknown one where it was thrown. */
export function faultOf(error: unknown): Word {
  if (error instanceof SluiceError) return words`${saysOf(error)} [${fixedWord(error.code)}]`;
  const [first] = framesOf(error);
  return first === undefined ? kindOf(error) : words`${kindOf(error)} at ${first}`;
}

/** The same log with fields that all of its lines have. */
export const withFields =
  (log: Log, fixed: LogFields): Log =>
  (level, event, says, fields) =>
    log(level, event, says, { ...fixed, ...fields });

// The grammar of delimited text as a table of states and byte classes; a slow reference that is used only by tests.
// Tests compare the scanner, the line kernel, the byte decoder and csv-parse with this grammar.

import { CR, LF, QUOTE } from '../../core/ascii.ts';
import { RECORD_MALFORMED, RECORD_OK, RECORD_TOO_LONG } from '../../core/block.ts';

/**
 * States of the grammar, which is RFC 4180 with extensions: LF, CRLF and CR end lines and may be mixed, and a quote
 * inside an unquoted field is text.
 */
type GrammarState =
  /** Before the first byte of a record. */
  | 'start'
  /** Before a record and after a CR. A following LF belongs to the same line break. */
  | 'afterCr'
  /** After a delimiter. */
  | 'field'
  | 'unquoted'
  | 'quoted'
  /** After a quote in a quoted field: it closes the field, or is the first of a doubled quote. */
  | 'quote'
  /** After text that follows a closing quote. The remaining line belongs to the record, whatever it contains. */
  | 'bad'
  /** After a record that was too long. The remaining line is dropped. */
  | 'drop';

/**
 * Action before the byte is consumed. `end`: the record ends before the byte. `fault`: the record ends before the byte
 * and is malformed. `skip`: the line is blank or dropped, and gives no record. `join`: the LF belongs to the line break
 * that the preceding CR began. `broken`: the record violates the grammar at this byte.
 */
type Action = 'end' | 'fault' | 'skip' | 'join' | 'broken';
type Step = GrammarState | `${Action} ${GrammarState}`;

const CLASSES = ['other', 'delimiter', 'quote', 'cr', 'lf', 'over'] as const;
/** Classes of bytes. `over` means the end of the input. */
type ByteClass = (typeof CLASSES)[number];

/**
 * The state table. There is one additional rule: a malformed record never affects more than its first physical line. If
 * a record is `broken` or too long and contains a line break inside quotes, it ends at the first such line break and is
 * malformed, and all following bytes are parsed again. If it has no such line break, a broken record continues to the
 * end of its line, and a record that is too long is cut at the limit. A byte order mark at the beginning of the input
 * is skipped.
 */
// biome-ignore format: a table
export const GRAMMAR: Readonly<Record<GrammarState, readonly Step[]>> = {
  //          other         delimiter   quote       CR               LF             end of input
  start:    ['unquoted',   'field',    'quoted',   'skip afterCr',  'skip start',  'skip start'],
  afterCr:  ['unquoted',   'field',    'quoted',   'skip afterCr',  'join start',  'skip start'],
  field:    ['unquoted',   'field',    'quoted',   'end afterCr',   'end start',   'end start'],
  unquoted: ['unquoted',   'field',    'unquoted', 'end afterCr',   'end start',   'end start'],
  quoted:   ['quoted',     'quoted',   'quote',    'quoted',        'quoted',      'broken bad'],
  quote:    ['broken bad', 'field',    'quoted',   'end afterCr',   'end start',   'end start'],
  bad:      ['bad',        'bad',      'bad',      'fault afterCr', 'fault start', 'fault start'],
  drop:     ['drop',       'drop',     'drop',     'skip afterCr',  'skip start',  'skip start'],
};

export interface GrammarRecord {
  start: number;
  end: number;
  fault: number;
  /** Physical line on which the record begins, from 1. */
  line: number;
}

/** The class of a byte; undefined: end of the input. */
function classOf(byte: number | undefined, delimiter: number): ByteClass {
  if (byte === undefined) return 'over';
  if (byte === delimiter) return 'delimiter';
  return byte === QUOTE ? 'quote' : byte === CR ? 'cr' : byte === LF ? 'lf' : 'other';
}

function stepOf(state: GrammarState, byte: number | undefined, delimiter: number): [GrammarState, Action | null] {
  const step = GRAMMAR[state][CLASSES.indexOf(classOf(byte, delimiter))]!;
  const [first, second] = step.split(' ') as [GrammarState, undefined] | [Action, GrammarState];
  return second === undefined ? [first as GrammarState, null] : [second, first as Action];
}

/** Parses all records of a text according to the table and the additional rule. */
export function grammarRecords(bytes: Uint8Array, delimiter: number, maxRecordBytes = Infinity): GrammarRecord[] {
  const records: GrammarRecord[] = [];
  let pos = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  let state: GrammarState = 'start';
  let start = pos;
  /** Position of the first line break inside quotes in the record; -1: none. */
  let inner = -1;
  const lineAt = (at: number): number => {
    const before = Buffer.from(bytes.subarray(0, at)).toString('latin1');
    // An LF after a CR belongs to the same line break.
    return before.split(/\r\n|\n|\r/).length;
  };
  const add = (end: number, fault: number): void => {
    records.push({ start, end, fault, line: lineAt(start) });
  };
  const goOn = (next: GrammarState, at: number): void => {
    state = next;
    pos = at;
    start = at;
    inner = -1;
  };
  const takeBack = (): void => {
    add(inner, RECORD_MALFORMED);
    goOn(bytes[inner] === CR ? 'afterCr' : 'start', inner + 1);
  };
  for (;;) {
    const byte = bytes[pos];
    const breaks = byte === CR || byte === LF;
    if (byte !== undefined && state !== 'drop' && pos - start >= maxRecordBytes && !(breaks && state !== 'quoted')) {
      if (inner >= 0) takeBack();
      else {
        add(pos, RECORD_TOO_LONG);
        state = 'drop';
      }
      continue;
    }
    if (breaks && state === 'quoted' && inner < 0) inner = pos;
    const [next, action] = stepOf(state, byte, delimiter);
    if (action === 'broken') {
      if (inner >= 0) takeBack();
      else state = next;
      continue;
    }
    if (action === 'end') add(pos, RECORD_OK);
    else if (action === 'fault') add(pos, RECORD_MALFORMED);
    if (byte === undefined) return records;
    if (action !== null) goOn(next, pos + 1);
    else {
      state = next;
      pos++;
    }
  }
}

/** The fields of a well-formed record. */
export function grammarFields(record: Uint8Array, delimiter: number): string[] {
  const fields: string[] = [];
  let text: number[] = [];
  let state: GrammarState = 'start';
  for (const byte of record) {
    const [next] = stepOf(state, byte, delimiter);
    if (next === 'field') {
      fields.push(Buffer.from(text).toString());
      text = [];
    } else if (next === 'unquoted' || (next === 'quoted' && (state === 'quoted' || state === 'quote'))) text.push(byte);
    state = next;
  }
  return [...fields, Buffer.from(text).toString()];
}

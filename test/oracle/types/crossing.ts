// Scores every carrier of values as every column of a model, and as a column that is passed through, and lists what differs from the rule.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as flechette from '@uwdata/flechette';
import { parse } from 'csv-parse/sync';
import { parquetReadObjects } from 'hyparquet';
import { FILE_FORMATS, type FileFormat } from '../../../src/core/file-format.ts';
import { neutral } from '../compare.ts';
import type { Column, Declared } from '../oracle.ts';
import { CARRIERS, type Carrier, isTable, linesOf } from './carriers.ts';
import { Engine } from './engine.ts';
import { ALL, ALWAYS, constantOf, inputOf, type KindColumn, shareOf, writePackage } from './model.ts';
import { meaningOf, type Setting, takesKind, type Value } from './rule.ts';

/** A model and what is declared of its input. */
export type Way = 'plain' | 'declared' | 'numbers accepted';
const DECLARED: Declared = { null_values: ['NULL', '36.0', '-7', 'Y', '230,0', '1.500,0', '“'], decimal: 'comma', thousands: 'point', trim: true }; // biome-ignore format: one line
const SETTINGS: Record<Way, Setting> = {
  plain: { declared: {}, numbers: 'refuse' },
  declared: { declared: DECLARED, numbers: 'refuse' },
  'numbers accepted': { declared: { null_values: ['-999.00', '36.0'] }, numbers: 'accept' },
};

/** A column with what the rule has to know of it. */
const columnOf = (spec: KindColumn): Column => ({ ...spec, input: inputOf(spec) });

/** Values with their place in the input: all of one column. */
interface Cells {
  name: string;
  values: readonly Value[];
}

export class Crossing {
  /** Values that were compared. */
  compared = 0;
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'sluice-types-'));
  readonly #engines = new Map<string, Promise<Engine>>();

  engine(numbers: Setting['numbers']): Promise<Engine> {
    const known = this.#engines.get(numbers);
    if (known) return known;
    writePackage(this.#folder, `kinds-${numbers}`, numbers);
    const opened = Engine.open(this.#folder, `kinds-${numbers}`);
    this.#engines.set(numbers, opened);
    return opened;
  }

  async close(): Promise<void> {
    for (const engine of this.#engines.values()) await (await engine).close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** What each carrier has else than the rule says. `oneIn`: of a column, one in so many carriers is scored. */
  async carriers(way: Way, oneIn: (column: string) => number): Promise<string[]> {
    const found: string[] = [];
    for (const [c, spec] of ALL.entries()) {
      const own = CARRIERS.filter((_, i) => (i + c) % oneIn(spec.name) === 0);
      for (const carrier of own) found.push(...(await this.#carrier(carrier, spec, way)));
    }
    return found;
  }

  async #carrier(carrier: Carrier, spec: KindColumn, way: Way): Promise<string[]> {
    const setting = SETTINGS[way];
    const label = `${carrier.name} as ${spec.name}, ${way}`;
    const isRefused = isTable(carrier) && !takesKind(columnOf(spec), carrier.kind, setting);
    const bytes = isTable(carrier) ? Buffer.from(carrier.file, 'base64') : textOf(linesOf(carrier, true));
    const format = isTable(carrier) ? carrier.format : 'ndjson';
    const rename = { [spec.name]: 'x', [ALWAYS]: 'row' };
    const scored = await this.#score(bytes, format, spec, setting, { rename, ignore: ['y'] });
    if (typeof scored === 'string') {
      // Nested columns are refused by name before their type is looked at.
      const codes = carrier.kind === 'nested' ? ['bad_type', 'header_mismatch'] : ['bad_type'];
      return isRefused && codes.includes(scored) ? [] : [`${label}: refused, ${scored}`];
    }
    if (isRefused) return [`${label}: is not refused`];
    return this.compare(scored, spec, setting, { name: label, values: carrier.values });
  }

  /** The answers, one per row, or the code of the refusal. */
  async #score(
    bytes: Buffer,
    format: FileFormat,
    spec: KindColumn,
    { declared, numbers }: Setting,
    more: Declared,
  ): Promise<Answer[] | string> {
    const constants = Object.fromEntries(ALL.filter((c) => c !== spec).map((c) => [c.name, constantOf(c)]));
    const { bytes: output, refused } = await (await this.engine(numbers)).score(bytes, format, {
      ...declared,
      ...more,
      constants,
    });
    if (refused !== null) return refused;
    return output!.toString().split('\n').filter(Boolean).map((line) => JSON.parse(line)); // biome-ignore format: one line
  }

  compare(answers: readonly Answer[], spec: KindColumn, setting: Setting, { name, values }: Cells): string[] {
    if (answers.length !== values.length) return [`${name}: ${answers.length} rows instead of ${values.length}`];
    this.compared += values.length;
    return values.flatMap((value, i) => {
      const meaning = meaningOf(value, columnOf(spec), setting);
      const wanted = 'code' in meaning ? meaning.code : shareOf(spec, meaning.feature) + 0;
      const { error, value: score } = answers[i]!;
      const got = error ? error.code : score;
      return wanted === got ? [] : [`${name}: ${JSON.stringify(value)} is ${got} instead of ${wanted}`];
    });
  }

  /** Cells of a text format, as every column. `write`: the whole input, whose columns are x and row. */
  async texts(
    format: FileFormat,
    values: readonly Value[],
    write: () => string,
    ways: readonly Way[],
  ): Promise<string[]> {
    const found: string[] = [];
    const bytes = Buffer.from(write());
    for (const way of ways) {
      for (const spec of ALL) {
        const name = `${format} as ${spec.name}, ${way}`;
        const rename = { [spec.name]: 'x', [ALWAYS]: 'row' };
        const scored = await this.#score(bytes, format, spec, SETTINGS[way], { rename });
        if (typeof scored === 'string') found.push(`${name}: refused, ${scored}`);
        else found.push(...this.compare(scored, spec, SETTINGS[way], { name, values }));
      }
    }
    return found;
  }

  /** Scores CSV from a database, which has `spec`, `always` and the columns of `others`. */
  async csv(text: string, spec: KindColumn, others: readonly string[]): Promise<Answer[] | string> {
    return this.#score(Buffer.from(text), 'csv', spec, SETTINGS.plain, { ignore: [...others] });
  }

  /** Scores a row whose other columns are constant in its text, and this one by a declaration. */
  async constant(
    constants: Record<string, string>,
    spec: KindColumn,
    numbers: Setting['numbers'],
  ): Promise<Answer[] | string> {
    const others = ALL.filter((column) => column !== spec);
    const line = others.map((column) => `"${constantOf(column)}"`).join(',');
    const text = `${ALWAYS},${others.map(({ name }) => name).join(',')}\n1,${line}\n`;
    const { bytes, refused } = await (await this.engine(numbers)).score(Buffer.from(text), 'csv', { constants });
    return refused ?? [JSON.parse(bytes!.toString())];
  }

  /** What each carrier passes through else than it has, in each format; `oneIn`: one in so many carriers. */
  async passedThrough(oneIn = 1): Promise<string[]> {
    const found: string[] = [];
    const engine = await this.engine('refuse');
    const constants = Object.fromEntries(ALL.map((c) => [c.name, constantOf(c)]));
    for (const [i, carrier] of CARRIERS.entries()) {
      const bytes = isTable(carrier) ? Buffer.from(carrier.file, 'base64') : textOf(linesOf(carrier, false));
      const input = isTable(carrier) ? carrier.format : 'ndjson';
      // Every carrier in NDJSON, which has all digits and types, and in one of the other formats.
      const outputs = new Set<FileFormat>(['ndjson', FILE_FORMATS[i % FILE_FORMATS.length]!]);
      for (const output of i % oneIn === 0 ? outputs : []) {
        const name = `${carrier.name} passed through to ${output}`;
        const declared = { rename: { [ALWAYS]: 'row' }, constants, ignore: ['y'] };
        const { bytes: written, refused } = await engine.score(bytes, input, declared, { passthrough: ['x'], output });
        if (carrier.kind === 'nested' && isTable(carrier)) {
          if (refused !== 'header_mismatch') found.push(`${name}: nested values are not refused`);
          continue;
        }
        if (refused !== null) {
          found.push(`${name}: refused, ${refused}`);
          continue;
        }
        const tokens = carrier.values.map((value) => tokenOf(value, carrier));
        const wanted = output === 'ndjson' || output === 'json' ? tokens : tokens.map((token) => cellOf(token, output));
        const got = await passedIn(written!, output);
        this.compared += wanted.length;
        if (got.length !== wanted.length) found.push(`${name}: ${got.length} rows instead of ${wanted.length}`);
        for (const [row, token] of wanted.entries())
          if (token !== got[row]) found.push(`${name}: ${got[row]} instead of ${token}`);
      }
    }
    return found;
  }
}

export interface Answer {
  value?: number;
  error?: { code: string };
}

const textOf = (lines: readonly string[]): Buffer => Buffer.from(lines.map((line) => `${line}\n`).join(''));

/** Types of Protobuf that its JSON writes as texts. */
const WIDE = /int64|fixed64|Int64Value|UInt64Value/;

/** A value as the token of JSON that is passed through (docs/input.md). */
export function tokenOf(value: Value, { kind, format, name }: Carrier): string {
  if (value === null) return 'null';
  if ('b' in value) return String(value.b);
  if ('t' in value) return JSON.stringify(value.t);
  if ('o' in value) return JSON.stringify(value.o);
  if (kind === 'decimal') return JSON.stringify(value.n);
  if (/^-?\d+$/.test(value.n)) return format === 'protobuf' && WIDE.test(name) ? JSON.stringify(value.n) : value.n;
  const number = Number(value.n);
  // Records of a topic have no token for NaN.
  if (Number.isNaN(number) && format !== 'arrow' && format !== 'parquet') return 'null';
  if (!Number.isFinite(number)) return JSON.stringify(value.n);
  return Object.is(number, -0) && (format === 'arrow' || format === 'parquet') ? '-0' : String(number);
}

/** The same as the cell of a table; null: there is none. */
export function cellOf(token: string, output: FileFormat): string | null {
  const isDelimited = output === 'csv' || output === 'tsv';
  const text = token === 'null' ? null : token.startsWith('"') ? (JSON.parse(token) as string) : token;
  return isDelimited ? neutral(text ?? '') : text;
}

export async function passedIn(bytes: Buffer, output: FileFormat): Promise<(string | null)[]> {
  switch (output) {
    case 'ndjson':
    case 'json':
      return [...bytes.toString().matchAll(/\{"x":(.*?),"row":\d+,"value"/g)].map(([, token]) => token!);
    case 'csv':
    case 'tsv':
      return (parse(bytes, { columns: true, delimiter: output === 'tsv' ? '\t' : ',' }) as { x: string }[]).map(({ x }) => x); // biome-ignore format: one line
    case 'parquet': {
      const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
      return (await parquetReadObjects({ file, columns: ['x'] })).map((row) => (row.x ?? null) as string | null);
    }
    case 'arrow':
      return [...(flechette.tableFromIPC(new Uint8Array(bytes)).getChild('x') as Iterable<string | null>)];
  }
}

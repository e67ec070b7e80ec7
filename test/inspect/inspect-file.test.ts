// What `sluice inspect` decides, what it asks, and which files it gives no command for.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { inspectFile } from '../../src/inspect/inspect-file.ts';
import type { Inspection } from '../../src/inspect/inspection.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { scratch } from '../support/cli.ts';
import { encoded } from '../support/encodings.ts';
import { CREDIT_COLUMNS, CREDIT_DEFAULT } from '../support/score.ts';
import { applicationsFor } from './applications.ts';

/** A file under construction: the header and the rows, by column name. */
class Draft {
  head: string[];
  rows: string[][];

  constructor(head: readonly string[], rows: readonly (readonly string[])[]) {
    this.head = [...head];
    this.rows = rows.map((row) => [...row]);
  }

  /** Changes the cells of these columns. */
  change(names: readonly string[], to: (text: string, row: number) => string): this {
    for (const name of names) {
      const at = this.head.indexOf(name);
      for (const [r, row] of this.rows.entries()) row[at] = to(row[at]!, r);
    }
    return this;
  }

  rename(name: string, to: string): this {
    this.head[this.head.indexOf(name)] = to;
    return this;
  }

  swap(a: string, b: string): this {
    const [i, j] = [this.head.indexOf(a), this.head.indexOf(b)];
    for (const row of this.rows) [row[i], row[j]] = [row[j]!, row[i]!];
    return this;
  }

  add(name: string, cell: (row: number) => string): this {
    this.head.push(name);
    for (const [r, row] of this.rows.entries()) row.push(cell(r));
    return this;
  }

  text(delimiter = ';', withHeader = true): string {
    return [...(withHeader ? [this.head] : []), ...this.rows].map((row) => `${row.join(delimiter)}\n`).join('');
  }
}

const NUMBERS = ['amount', 'term', 'income', 'monthly_payment', 'pt_income'];
let models: Record<'default' | 'columns', ModelPackage>;
let applications: Awaited<ReturnType<typeof applicationsFor>>;
beforeAll(async () => {
  models = { default: await loadPackage(CREDIT_DEFAULT), columns: await loadPackage(CREDIT_COLUMNS) };
  applications = await applicationsFor(CREDIT_DEFAULT, 200);
});

const draft = () =>
  new Draft(
    applications.columns.map(({ name }) => name),
    applications.rows,
  );

async function inspected(
  content: string | Buffer,
  { name = 'file.csv', model = 'default' as keyof typeof models } = {},
): Promise<Inspection> {
  const file = path.join(scratch(), name);
  writeFileSync(file, content);
  return inspectFile({ file, model: models[model], modelName: 'credit', output: 'out.csv' });
}

/** The command or commands of a report, without the file and the flags that all of them have. */
const flagsOf = ({ command, alternatives }: Inspection): string[] =>
  (command === null ? alternatives.map((one) => one.command) : [command]).map((line) =>
    line.replace(/.*-o out\.csv ?/, '').replace(/^--input-format csv ?/, ''),
  );

describe('numbers', () => {
  const thousands = () =>
    draft().change(NUMBERS, (text) =>
      text === ''
        ? ''
        : Math.round(Number(text))
            .toString()
            .replace(/\B(?=(?:\d{3})+$)/g, '.'),
    );

  test('1.234 in all numbers: the training data decides', async () => {
    const found = await inspected(thousands().text());
    expect(found).toMatchObject({ verdict: 'ready', questions: [], numbers: { confidence: 'medium' } });
    expect(found.numbers!.reason).toMatch(/\d\.\d{3} means \d{4,6}: only then do the numbers fit the training data/);
    expect(flagsOf(found)).toEqual(['--delimiter semicolon --decimal comma --thousands point']);
  });

  test('1.234 in all numbers without training data: a question, and a command for each reading', async () => {
    const found = await inspected(thousands().text(), { model: 'columns' });
    expect(found).toMatchObject({ verdict: 'open', command: null, numbers: { confidence: 'low' } });
    expect(found.questions).toHaveLength(1);
    const meanings = found.alternatives.map(({ meaning }) => meaning);
    expect(meanings).toHaveLength(2);
    expect(meanings.some((one) => /^\d+\.\d{3} means \d+\.\d+$/.test(one))).toBe(true);
    expect(meanings.some((one) => /^\d+\.\d{3} means \d{4,}$/.test(one))).toBe(true);
    expect(flagsOf(found).toSorted()).toEqual([
      '--delimiter semicolon',
      '--delimiter semicolon --decimal comma --thousands point',
    ]);
  });

  test('one other number decides without training data', async () => {
    const text = thousands()
      .change(['pt_income'], (_, r) => (r === 7 ? '0,5' : ''))
      .text();
    const found = await inspected(text, { model: 'columns' });
    expect([found.verdict, ...flagsOf(found)]).toEqual([
      'ready',
      '--delimiter semicolon --decimal comma --thousands point',
    ]);
  });

  test('0.123 is a fraction', async () => {
    const text = draft()
      .change(NUMBERS, (_, r) => `0.${100 + r}`)
      .text();
    const found = await inspected(text, { model: 'columns' });
    expect([found.verdict, found.questions, ...flagsOf(found)]).toEqual(['ready', [], '--delimiter semicolon']);
  });

  test.each([
    ['spaces', '1 234 567,5', '--decimal comma --thousands space'],
    ['no-break spaces', '1\u00a0234\u202f567', '--thousands space'],
    ['apostrophes', "1'234'567.5", '--thousands apostrophe'],
    ['commas', '1,234,567.5', '--thousands comma'],
    ['an exponent', '1.5e3', ''],
  ])('%s', async (_, number, flags) => {
    const found = await inspected(
      draft()
        .change(NUMBERS, () => number)
        .text('|'),
      { model: 'columns' },
    );
    expect([found.verdict, ...flagsOf(found)]).toEqual(['ready', `--delimiter pipe ${flags}`.trim()]);
  });

  test('a unit behind every number: no command, and why', async () => {
    const found = await inspected(
      draft()
        .change(['amount'], (text) => `${text} EUR`)
        .text(),
    );
    expect(found).toMatchObject({ verdict: 'impossible', command: null, alternatives: [], rejected: { rows: 200 } });
    expect(found.problems[0]).toMatch(
      /^every inspected row would be rejected: amount: not a plain decimal number; no flag removes/,
    );
  });
});

describe('missing values', () => {
  test('words that are no values are declared', async () => {
    const found = await inspected(
      draft()
        .change([...NUMBERS, 'occupation_type'], (text) => text || 'n/a')
        .text(','),
    );
    expect([found.verdict, ...flagsOf(found)]).toEqual(['ready', '--null-values n/a']);
    expect(found.null_values).toEqual([
      { text: 'n/a', count: expect.any(Number), columns: ['term', 'income', 'occupation_type', 'pt_income'] },
    ]);
  });

  test('a word in text columns only is a question', async () => {
    const found = await inspected(
      draft()
        .change(['occupation_type'], (text) => text || 'none')
        .text(','),
      { model: 'columns' },
    );
    expect([found.verdict, found.command]).toEqual(['open', null]);
    expect(flagsOf(found)).toEqual(['--null-values none', '']);
  });

  test('-999 outside the training data is a question', async () => {
    const found = await inspected(
      draft()
        .change(['income'], (text) => text || '-999')
        .text(','),
    );
    expect(found.questions.map(({ question }) => question)).toEqual([
      expect.stringMatching(/^does -999 mean a missing value\? It occurs \d+ times in income$/),
    ]);
    expect(flagsOf(found)).toEqual(['--null-values -999', '']);
  });
});

describe('columns', () => {
  test('a missing column: no command, unless its values are in a column with another name', async () => {
    const missing = await inspected(
      draft()
        .rename('source_type', 'KANAL')
        .change(['KANAL'], () => 'x')
        .text(),
    );
    expect([missing.verdict, missing.command, missing.alternatives]).toEqual(['impossible', null, []]);
    expect(missing.problems[0]).toMatch(
      /^1 column of the model has no counterpart by name: source_type\. Declare those among KANAL with --rename/,
    );
    const hinted = await inspected(draft().rename('source_type', 'KANAL').text(','));
    expect([hinted.verdict, hinted.command]).toEqual(['open', null]);
    expect(hinted.alternatives).toEqual([
      { meaning: 'source_type is KANAL', command: expect.stringMatching(/ --rename source_type=KANAL$/) },
    ]);
  });

  test('two similar names: a command for each', async () => {
    const found = await inspected(
      draft()
        .rename('occupation_type', 'ocupation_type')
        .add('occupation_typ', () => 'EMPLOYEE')
        .text(','),
    );
    expect(found.columns.find(({ column }) => column === 'occupation_type')).toMatchObject({
      match: 'open',
      input: null,
    });
    expect(flagsOf(found)).toEqual([
      '--rename occupation_type=ocupation_type --ignore occupation_typ',
      '--rename occupation_type=occupation_typ --ignore ocupation_type',
    ]);
  });

  test('a similar name whose values do not fit is no match', async () => {
    const found = await inspected(
      draft()
        .rename('occupation_type', 'BERUF')
        .add('ocupation_type', (r) => String(r))
        .text(','),
    );
    expect([found.verdict, found.command]).toEqual(['open', null]);
    expect(found.alternatives.map(({ meaning }) => meaning)).toEqual([
      'occupation_type is ocupation_type',
      'occupation_type is BERUF',
    ]);
  });

  test('a duplicate column with the same values is read once; with others it is a question', async () => {
    const same = draft();
    const found = await inspected(same.add('amount', (r) => same.rows[r]![0]!).text());
    expect([found.verdict, found.skipped_lines]).toEqual(['ready', 0]);
    expect(found.command).toMatch(
      /^sluice score \S+ .* --skip-lines 1 .*--columns amount,source_type,.*,unused_24 --ignore '\*'$/,
    );
    const other = await inspected(
      draft()
        .add('amount', (r) => String(r))
        .text(),
    );
    expect(other.alternatives.map(({ meaning }) => meaning)).toEqual(['amount is field 1', 'amount is field 24']);
  });

  test('a name with a comma, which no flag can contain, is replaced by positions', async () => {
    const found = await inspected(draft().rename('amount', '"AMOUNT,"').text(','));
    expect(found.verdict).toBe('ready');
    expect(found.command).toMatch(/^sluice score \S+ .* --skip-lines 1 .*--columns amount,source_type,[^ ]*$/);
  });

  test('the outcome and an identifier are ignored, and the report names them', async () => {
    const found = await inspected(
      draft()
        .add('ok', () => '1')
        .add('id', (r) => `A${r}`)
        .text(','),
    );
    expect(flagsOf(found)).toEqual(['--ignore ok,id']);
    expect(found.notes).toEqual([
      'the values of id are unique: to copy them to the output, name id in --passthrough instead of --ignore',
      'ok is the outcome that the model predicts; it is ignored',
    ]);
  });
});

describe('without a header row', () => {
  test('the order of the model, with the first row to check', async () => {
    const found = await inspected(draft().text('|', false));
    expect(found).toMatchObject({ verdict: 'ready', header: { value: 'none' } });
    expect(found.columns.every(({ match, confidence }) => match === 'position' && confidence === 'medium')).toBe(true);
    expect(found.first_row!.map(({ column }) => column)).toEqual(applications.columns.map(({ name }) => name));
    expect(found.first_row!.map(({ value }) => value)).toEqual(applications.rows[0]);
  });

  test.each([
    ['amount', 'income'],
    ['term', 'amount'],
    ['had_arrears', 'had_credits_before'],
  ])('swapped %s and %s: a question, and no single command', async (a, b) => {
    const found = await inspected(draft().swap(a, b).text(';', false));
    expect([found.verdict, found.command]).toEqual(['open', null]);
    expect(found.questions[0]!.question).toMatch(/^are \w+ and \w+ swapped\?/);
    const [swapped] = found.alternatives;
    const names = applications.columns.map(({ name }) => name);
    const order = names.map((name) => (name === a ? b : name === b ? a : name));
    expect(swapped!.command).toContain(`--columns ${order.join(',')}`);
    const flags = found.questions[0]!.answers.map((answer) => answer.flags);
    expect(flags).toEqual([expect.stringMatching(new RegExp(`^--columns ${order.join(',')}`)), '']);
  });

  test('columns of other kinds in the wrong order: no command', async () => {
    const found = await inspected(draft().swap('amount', 'source_type').text(';', false));
    expect([found.verdict, found.command]).toEqual(['impossible', null]);
    expect(found.problems[0]).toMatch(/field values do not fit amount in the order of the model: declare the names/);
  });

  test('too few rows to confirm the order: a question', async () => {
    const few = new Draft([], applications.rows.slice(0, 5));
    const found = await inspected(few.text(';', false));
    expect([found.verdict, found.command]).toEqual(['open', expect.stringContaining('--columns amount,')]);
    expect(found.questions[0]!.question).toMatch(/^is the order of the fields that of the model\?/);
  });

  test('a line with other names that is no header for the rows: a question', async () => {
    const head = draft().head.map((_, i) => `SPALTE${i}`);
    const rows = applications.rows.map((row) => [...row, '']);
    const found = await inspected(new Draft(head, rows).text());
    expect([found.verdict, found.skipped_lines]).toEqual(['open', 1]);
    expect(found.questions[0]!.question).toMatch(/^is the order of the fields that of the model\?/);
  });

  test('an identifier in front of the columns is recognised by the values after it', async () => {
    const rows = applications.rows.map((row, r) => [String(r), ...row]);
    const found = await inspected(new Draft([], rows).text(';', false));
    expect([found.verdict, found.columns[0]!.input]).toEqual(['ready', 'field 2']);
    expect(found.command).toMatch(/--columns unused_1,amount,source_type,/);
  });

  test('fewer fields than the model has columns: no command', async () => {
    const found = await inspected('1;a\n2;b\n3;c\n');
    expect(found.problems).toEqual([
      expect.stringMatching(/^the file has no header row and 2 fields, the model has 23 columns/),
    ]);
  });
});

describe('values that would be scored wrongly without an error', () => {
  test.each<[string, string, (text: string) => string]>([
    ['leading zeros', 'credit_product_id', (text) => text.replace(/^0+/, '')],
    ['letter case', 'source_type', (text) => text.toLowerCase()],
    ['separators', 'occupation_type', (text) => text.replaceAll('_', ' ')],
  ])('%s: no command', async (what, column, change) => {
    const found = await inspected(draft().change([column], change).text());
    expect([found.verdict, found.command, found.rejected.rows]).toEqual(['impossible', null, 0]);
    expect(found.problems[0]).toMatch(new RegExp(`of the values of ${column} are known categories except for ${what}`));
  });

  test('few of them are a question', async () => {
    const found = await inspected(
      draft()
        .change(['source_type'], (text, r) => (r === 3 ? text.toLowerCase() : text))
        .text(','),
    );
    expect([found.verdict, found.questions.length]).toEqual(['open', 1]);
    expect(found.questions[0]!.question).toMatch(/differ from known categories only in letter case/);
  });

  test('many unseen categories are a question', async () => {
    const found = await inspected(
      draft()
        .change(['source_type'], (text, r) => (r % 2 ? text : `NEW${r}`))
        .text(),
    );
    expect(found.questions.map(({ question }) => question)).toEqual([
      '50.5 % of the values of source_type are unseen categories: is it the right column?',
    ]);
  });

  test('missing values do not count for the share of unseen categories', async () => {
    const found = await inspected(
      draft()
        .change(['source_type'], (text, r) => (r % 4 === 1 ? `NEW${r}` : r % 2 ? text : ''))
        .text(),
    );
    expect(found.questions.map(({ question }) => question)).toEqual([
      '51.0 % of the values of source_type are unseen categories: is it the right column?',
    ]);
  });

  test('text of the model in an encoding that is a guess is a question', async () => {
    const text = draft()
      .change(['occupation_type'], (word) => word && `${word}Ä`)
      .text(',');
    const found = await inspected(encoded(text, 'windows-1252'), { model: 'columns' });
    expect([found.verdict, found.questions[0]!.question]).toEqual([
      'open',
      'is windows-1252 the encoding? The model reads occupation_type, which contains CIVIL_SERVANTÄ',
    ]);
    expect(found.command).toMatch(/ --encoding windows-1252$/);
    const known = await inspected(text, { model: 'columns' });
    expect([known.verdict, known.questions]).toEqual(['ready', []]);
  });

  test('another unit is a question', async () => {
    const found = await inspected(
      draft()
        .change(['amount'], (text) => `${text}00`)
        .text(','),
    );
    expect([found.verdict, found.questions.length]).toEqual(['open', 1]);
    expect(found.questions[0]!.question).toMatch(
      /of the values of amount are outside the training data \(1000 to 500000\): is it the right column, in the same unit\?$/,
    );
  });

  test('a column without values is a question, if it had some in training', async () => {
    const found = await inspected(
      draft()
        .change(['amount', 'pt_income'], () => '')
        .text(','),
    );
    expect(found.questions.map(({ question }) => question)).toEqual([
      '100.0 % of the values of amount are missing, unlike in the training data: is it the right column?',
    ]);
  });

  test('booleans in another language: no command', async () => {
    const found = await inspected(
      draft()
        .change(['banned'], (text) => (text === 'true' ? 'ja' : 'nein'))
        .text(),
    );
    expect(found.problems).toEqual([
      expect.stringMatching(/banned: neither true nor false; list the words of the file in true_values/),
    ]);
  });

  test('a total line that may be an application: a question', async () => {
    const found = await inspected(`${draft().text()}${['900', ...Array(22).fill('')].join(';')}\n`);
    expect([found.verdict, found.command]).toEqual(['open', null]);
    expect(found.alternatives.map(({ command }) => command.startsWith("LC_ALL=C sed '$d' "))).toEqual([true, false]);
  });
});

describe('the extent of the inspection', () => {
  test('rows that would be rejected are counted and listed', async () => {
    const found = await inspected(
      draft()
        .change(['amount'], (text, r) => (r % 50 === 9 ? 'x' : text))
        .text(','),
    );
    expect([found.verdict, found.rejected.rows, found.command]).toEqual(['rejects', 4, expect.any(String)]);
    expect(found.rejected.first[0]).toMatchObject({ row: 10, column: 'amount', code: 'bad_number' });
  });

  test('10,000 rows from the start, and the end of a longer file', async () => {
    const rows = Array.from({ length: 150 }, () => applications.rows).flat();
    const long = `${new Draft(draft().head, rows).text()}TOTAL${';'.repeat(22)}\n`;
    const found = await inspected(long);
    expect(found.inspected).toEqual({ rows: 10_000, whole_file: false, end_of_file: true });
    expect(found.command).toMatch(/^sluice score \S+ .* --trailer Total( |$)/i);
    const packed = await inspected(gzipSync(long), { name: 'long.csv.gz' });
    expect(packed.command).toMatch(/^sluice score \S+\.gz .* --trailer Total( |$)/i);
  });

  test('the end of a long compressed file is unknown, which the report says', async () => {
    const rows = Array.from({ length: 800 }, () => applications.rows).flat();
    const long = `${new Draft(draft().head, rows).text()}TOTAL${';'.repeat(22)}\n`;
    const found = await inspected(gzipSync(long, { level: 1 }), { name: 'long.csv.gz' });
    expect(found.inspected).toEqual({ rows: 10_000, whole_file: false, end_of_file: false });
    expect(found.notes).toContain('the end of the file was not inspected: look for a total line there');
  });

  test('total lines of UTF-16 are declared, or removed after conversion if their first field is empty', async () => {
    const found = await inspected(encoded(`Report\n\n${draft().text('\t')}Total${'\t'.repeat(22)}\n`, 'utf-16'), {
      name: 'u.txt',
    });
    expect(found.command).toMatch(/^sluice score \S+ .* --skip-lines 2 --encoding utf-16 --trailer Total$/);
    const nameless = await inspected(encoded(`${draft().text('\t')}${'\t'.repeat(21)}Total\t\n`, 'utf-16'), {
      name: 'v.txt',
    });
    expect(nameless.command).toMatch(/^iconv -f UTF-16 -t UTF-8 \S+ \| LC_ALL=C sed '\$d' \| sluice score - /);
    expect(nameless.command).not.toContain('--encoding');
  });

  test('a truncated file is reported', async () => {
    const found = await inspected(draft().text(',').slice(0, -40));
    expect([found.verdict, found.notes]).toEqual([
      'rejects',
      ['the last record has fewer fields and no line end: the file may be truncated'],
    ]);
  });

  test.each<[string, string, string | Buffer, string]>([
    ['a workbook', 'a.xlsx', Buffer.from('PK\x03\x04aaaaaaaa'), 'foreign_content'],
    ['a page', 'a.csv', '<!doctype html><html></html>', 'foreign_content'],
    ['nothing', 'a.csv', '', 'empty_input'],
    ['another delimiter', 'a.csv', 'a^b^c\n1^2^3\n', 'foreign_content'],
    ['too many columns', 'a.csv', `${';'.repeat(3000)}\n`, 'limit_exceeded'],
    ['damaged gzip', 'a.csv.gz', Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]), 'truncated_input'],
    ['damaged Parquet', 'a.parquet', 'PAR1aaaaaaaaaaaaaaaa', 'truncated_input'],
  ])('%s in %s is an error', async (_, name, content, code) => {
    await expect(inspected(content, { name })).rejects.toMatchObject({ code });
  });

  test('a header that ends unlike the other lines is an error', async () => {
    const { head } = draft();
    const text = `${head.join(';')}\r${new Draft([], applications.rows).text(';', false)}`;
    await expect(inspected(text)).rejects.toMatchObject({
      code: 'header_mismatch',
      message: expect.stringContaining('in line 1 ends unlike'),
    });
  });

  test('no rows: no command', async () => {
    const found = await inspected(`${draft().head.join(',')}\n`);
    expect([found.verdict, found.problems]).toEqual(['impossible', ['the file has no rows after its header']]);
  });
});

// The doors of the command line: `score`, `run` of files and standard streams, `test`, `lint`, `explain`, `generate`, `model`.
import { read } from './corpus.ts';
import { steady } from './models.ts';
import { type Case, commandLine, type Seen, type Side } from './side.ts';

const MODEL = ['-m', 'credit-default', '--registry', '../models', '--workers', '1'];

interface ScoreCase {
  input: string;
  /** Name of the output; default out.csv. */
  to?: string;
  flags?: readonly string[];
  stdin?: boolean;
}

/** A summary as JSON is seen key by key: times and memory are not compared. */
const UNSTEADY = /^(seconds|rowsPerSecond|cpuSeconds|peakMemoryBytes|workers)$/;
function withSummary(seen: Seen, part: string): Seen {
  const summary = JSON.parse(seen.get(part)!.toString()) as Record<string, unknown>;
  seen.delete(part);
  for (const [key, value] of Object.entries(summary)) {
    seen.set(`summary.${key}`, Buffer.from(UNSTEADY.test(key) ? typeof value : JSON.stringify(value)));
  }
  return seen;
}

function scoreCase({ input, to = 'out.csv', flags = [], stdin = false }: ScoreCase): Case {
  const name = ['score', stdin ? '<' : '', input, '→', to, ...flags].filter(Boolean).join(' ');
  return {
    name,
    see: (side) =>
      commandLine(side, name, {
        args: ['score', stdin ? '-' : `in/${input}`, ...MODEL, '-o', to, ...flags],
        ...(stdin ? { stdin: read(side.corpus, input) } : {}),
      }),
  };
}

const DELIMITED = /\.(csv|tsv|txt)$|^no-ending$/;
const PACKED = /\.(gz|zst)$|parquet$/;

function scoreCases(names: readonly string[]): Case[] {
  const cases: ScoreCase[] = [];
  for (const input of names.filter((n) => DELIMITED.test(n))) {
    const delimiter = /^(semicolon|pipe)/.exec(input)?.[1]?.replace('pipes', 'pipe');
    const flags = delimiter === undefined ? [] : ['--delimiter', delimiter];
    cases.push({ input, flags }, { input, to: 'out.ndjson', flags: [...flags, '--passthrough', '*'] });
  }
  // Inputs that only a pipeline file took.
  for (const input of names.filter((n) => !DELIMITED.test(n))) cases.push({ input });
  const faults = 'faults.csv';
  for (const to of [
    'out.tsv',
    'out.json',
    'out.ndjson',
    'out.jsonl',
    '-',
    'out.csv.gz',
    'out.ndjson.zst',
    'out.parquet',
    'out.txt',
    'out',
  ]) {
    cases.push({ input: faults, to });
  }
  for (const format of ['csv', 'tsv', 'json', 'ndjson']) {
    cases.push({ input: faults, to: 'out', flags: ['--format', format] });
    cases.push({ input: 'notes.csv', to: '-', flags: ['--format', format, '--passthrough', 'note'] });
    cases.push({ input: 'semicolon.csv', to: '-', flags: ['--format', format, '--delimiter', 'semicolon'] });
    const interpreted = ['--interpretation', '--format', format];
    for (const more of [[], ['--top', '3'], ['--interpret-below', '0.6'], ['--top', '2', '--interpret-below', '0.4']]) {
      cases.push({ input: faults, to: '-', flags: [...interpreted, ...more] });
    }
  }
  for (const flags of [
    ['--on-invalid', 'fail'],
    ['--rejects', 'list.csv'],
    ['--evaluator', 'onnxruntime'],
    ['--evaluator', 'native'],
    ['--workers', '3'],
    ['--batch-rows', '7'],
    ['--block-bytes', '1000', '--read-bytes', '333'],
    ['--max-row-bytes', '110'],
    ['--passthrough', 'nobody'],
    ['--top', '3'],
    ['--top', '0'],
    ['--format', 'xml'],
    ['--delimiter', 'colon'],
    ['--on-invalid', 'shout'],
    ['--evaluator', 'mine'],
    ['--delimiter', 'tab'],
    ['-m', 'nobody'],
    ['-m', 'credit-default:1'],
    ['-m', 'credit-default:9'],
    ['-m', 'credit-columns'],
    ['-m', 'credit-columns', '--interpretation'],
  ]) {
    cases.push({ input: faults, flags });
  }
  for (const input of ['dirty.csv', 'ids.csv', 'large.csv', 'large-clean.csv']) {
    cases.push({ input, flags: ['--passthrough', '*', '--on-invalid', 'fail'] });
    cases.push({ input, to: 'out.json', flags: ['--passthrough', 'application_id'] });
  }
  cases.push({ input: 'large.csv', to: 'out.ndjson', flags: ['--workers', '2'] });
  for (const input of ['tabs.tsv', 'plain.csv', 'empty.csv', 'large.csv', 'native.json']) {
    cases.push({ input, to: '-', stdin: true }, { input, stdin: true, flags: ['--delimiter', 'comma'] });
  }
  cases.push({ input: 'is-not-there.csv' }, { input: faults, to: 'nowhere/out.csv' }, { input: faults, to: '.' });
  return cases.map(scoreCase);
}

function summaryCases(): Case[] {
  return (['out.csv', '-'] as const).flatMap((to) =>
    ['plain.csv', 'faults.csv'].map((input): Case => {
      const name = `score ${input} → ${to} --json`;
      const see = async (side: Side): Promise<Seen> => {
        const line = { args: ['score', `in/${input}`, ...MODEL, '-o', to, '--json'] };
        const seen = await commandLine(side, name, line);
        return to === '-' ? seen : withSummary(seen, 'standard output');
      };
      return { name, see };
    }),
  );
}

interface RunCase {
  /** Beside the name of the pipeline, what it reads and writes, as YAML. */
  source: string;
  sink: string;
  score?: string;
  more?: string;
  stdin?: string;
}

function runCase({ source, sink, score = '', more = '', stdin }: RunCase): Case {
  const name = ['run', source, '→', sink, score, more.trim(), stdin ? `< ${stdin}` : ''].filter(Boolean).join(' ');
  const pipeline = `model: credit-default\nsource: { ${source} }\nsink: { ${sink} }\nscore: { workers: 1${score === '' ? '' : `, ${score}`} }\n${more}\n`;
  const args = ['run', 'p.yaml', '--registry', '../models'];
  return {
    name,
    see: (side) =>
      commandLine(side, name.slice(0, 200), {
        args,
        files: { 'p.yaml': pipeline },
        ...(stdin === undefined ? {} : { stdin: read(side.corpus, stdin) }),
      }),
  };
}

const file = (name: string): string => `type: file, path: "in/${name}"`;
const out = (name: string): string => `type: file, path: "${name}"`;
const LIST = 'dead_letter: { type: file, path: list.csv }';

function runCases(names: readonly string[]): Case[] {
  const cases: RunCase[] = [];
  for (const name of names) {
    const delimiter = /^(semicolon|pipe)/.exec(name)?.[1];
    const source = file(name) + (delimiter === undefined ? '' : `, delimiter: ${delimiter}`);
    cases.push({ source, sink: out('out.ndjson'), more: LIST });
    if (PACKED.test(name)) cases.push({ source, sink: out('out.csv'), score: 'passthrough: "*"' });
  }
  for (const name of [
    'out.csv',
    'out.tsv',
    'out.json',
    'out.csv.gz',
    'out.ndjson.zst',
    'out.parquet',
    'out.parquet.gz',
    'out.txt',
    'out',
    'nowhere/out.csv',
  ]) {
    cases.push({ source: file('faults.csv'), sink: out(name), more: LIST });
    cases.push({ source: file('broken.ndjson'), sink: out(name) });
    cases.push({ source: file('faults.csv'), sink: out(name), score: 'interpretation: effects, top_effects: 3' });
  }
  for (const format of ['csv', 'tsv', 'json', 'ndjson']) {
    cases.push({ source: 'type: stdio', sink: `type: stdio, format: ${format}`, stdin: 'faults.csv' });
    cases.push({ source: `type: stdio, format: ${format}`, sink: 'type: stdio', stdin: 'native.ndjson', more: LIST });
    cases.push({
      source: file('large.csv'),
      sink: out(`out.${format}`),
      score: 'interpretation: reasons, interpret_below: 0.2',
    });
  }
  cases.push({ source: 'type: stdio', sink: 'type: stdio', stdin: 'empty.csv' });
  cases.push({
    source: 'type: stdio, compression: gzip',
    sink: 'type: stdio, compression: gzip',
    stdin: 'plain.csv.gz',
  });
  cases.push({
    source: 'type: stdio, format: csv, delimiter: semicolon',
    sink: out('out.csv'),
    stdin: 'semicolon.csv',
  });
  for (const more of [
    'on_invalid: fail',
    'on_invalid: report',
    `on_invalid: dead_letter\n${LIST}`,
    'on_invalid: dead_letter',
  ]) {
    cases.push({ source: file('faults.csv'), sink: out('out.csv'), more });
  }
  cases.push({ source: file('faults.csv'), sink: out('out.parquet'), score: 'passthrough: "*"' });
  cases.push({ source: file('ids.csv'), sink: out('out.parquet'), score: 'passthrough: [application_id]' });
  cases.push({ source: file('ids.csv'), sink: `${out('out.tsv')}, delimiter: semicolon` });
  cases.push({
    source: file('ids.csv'),
    sink: `${out('out.csv')}, delimiter: pipe`,
    score: 'passthrough: [application_id]',
  });
  cases.push({ source: `${file('no-ending')}, format: tsv`, sink: out('out.csv') });
  cases.push({ source: `${file('text.txt')}, format: tsv`, sink: `${out('out.txt')}, format: json` });
  cases.push({
    source: file('ids.csv'),
    sink: out('out.csv'),
    score: 'batch_rows: 7, record_bytes: 130, passthrough: "*"',
  });
  for (const evaluator of ['onnxruntime', 'native']) {
    cases.push({ source: file('dirty.csv'), sink: out('out.csv'), score: `evaluator: ${evaluator}` });
  }
  // Several inputs.
  for (const pattern of ['[df]*.csv', 'p*.csv', '*s.csv', 'nothing-*.csv', 'native.*']) {
    cases.push({ source: file(pattern), sink: out('o-{name}.ndjson'), more: LIST });
    cases.push({ source: file(pattern), sink: out('o-{name}.csv') });
  }
  for (const pattern of ['[bf]*.csv', 'l*.csv'])
    cases.push({ source: file(pattern), sink: out('o-{name}.csv'), score: 'passthrough: "*"' });
  // One ends badly, and the others are there.
  cases.push({ source: file('[o]*.csv'), sink: out('o-{name}.csv'), more: LIST });
  return cases.map(runCase);
}

/** Whatever else answers with bytes a program may read. */
function otherCases(zoo: readonly string[]): Case[] {
  const lines: [string, readonly string[], Readonly<Record<string, string>>?][] = [
    [
      'generate',
      [
        'generate',
        '--rows',
        '2000',
        '--seed',
        '3',
        '--faults',
        '30',
        '--ids',
        '--faults-json',
        'faults.json',
        '-o',
        'p.csv',
      ],
    ],
    ['generate tsv', ['generate', '--rows', '500', '--outcome', '--clean', '-o', 'p.tsv']],
    ['generate -', ['generate', '--rows', '20', '-o', '-']],
    ['explain', ['explain', 'in/plain.csv', '--row', '7', '-m', 'credit-default', '--json']],
    [
      'explain drawn',
      ['explain', 'in/plain.csv', '--row', '8', '-m', 'credit-default', '--top', '5', '--html', 'page.html'],
    ],
    ['explain beyond', ['explain', 'in/plain.csv', '--row', '9000', '-m', 'credit-default', '--json']],
    ['explain rejected', ['explain', 'in/numbers.csv', '--row', '1', '-m', 'credit-default', '--json']],
    ['model list', ['model', 'list', '--registry', '../models', '--json']],
    ['model show', ['model', 'show', 'credit-default', '--json']],
    ['model show columns', ['model', 'show', 'credit-columns', '--registry', '../models']],
    ['model verify', ['model', 'verify', 'credit-columns', '--registry', '../models']],
    [
      'lint',
      ['lint', 'p.yaml'],
      { 'p.yaml': 'model: credit-default\nsource: { type: stdio }\nsink: { type: stdio }\n' },
    ],
    [
      'lint faults',
      ['lint', 'p.yaml'],
      {
        'p.yaml': 'model: nobody\nsource: { type: file, path: a.csv }\nsink: { type: stdout }\nscore: { workers: 0 }\n',
      },
    ],
    [
      'test',
      ['test', 'p.yaml'],
      {
        'p.yaml': 'model: credit-default\nsource: { type: stdio }\nsink: { type: stdio }\n',
        'p.test.yaml':
          'cases:\n  - input: { amount: many }\n    expect: { error: { code: missing_column } }\n  - input: { amount: 5 }\n    expect: { decision: approve }\n',
      },
    ],
    ['nothing', []],
    ['nobody', ['nobody']],
    ['--version', ['--version']],
  ];
  const cases = lines.map(
    ([name, args, files = {}]): Case => ({
      name,
      see: async (side) =>
        new Map([...(await commandLine(side, name, { args, files }))].map(([part, bytes]) => [part, steady(bytes)])),
    }),
  );
  for (const model of zoo) {
    for (const flags of [
      ['--passthrough', '*'],
      ['--interpretation', '--passthrough', 'ok,loss_rate,grade'],
    ]) {
      for (const to of ['out.csv', 'out.ndjson']) {
        const name = `zoo ${model} → ${to} ${flags.join(' ')}`;
        const args = [
          'score',
          '../dirty.csv',
          '-m',
          model,
          '--registry',
          '../models',
          '--workers',
          '1',
          '-o',
          to,
          // It would name the package, whose report says when it was registered.
          '--no-manifest',
          ...flags,
        ];
        cases.push({ name, see: (side) => commandLine(side, name, { args }) });
      }
    }
  }
  return cases;
}

export const commandCases = (names: readonly string[], zoo: readonly string[]): Case[] => [
  ...scoreCases(names),
  ...summaryCases(),
  ...runCases(names),
  ...otherCases(zoo),
];

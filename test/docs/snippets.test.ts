// Every shell command and YAML file of the pages is executed or read as written; where that needs another machine, the exemption names the reason.
import { copyFileSync, cpSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { readPolicy } from '../../src/onboarding/policy-file.ts';
import { parsePipeline } from '../../src/runs/read-pipeline.ts';
import { Session } from '../../tools/readme/session.ts';
import { scratch } from '../support/cli.ts';
import { startService } from '../support/service.ts';
import { campaignTestNeeding, checkTestNeeding } from '../support/tools.ts';
import { ZOO } from '../support/zoo.ts';

interface Page {
  /** Regular expression of commands that this test does not execute → what covers them. */
  exempt?: Record<string, string>;
  /** Prepares the folder of the session; returns commands to execute first. */
  prepare?(session: Session): string | Promise<string>;
  /** Commands to execute last, as checks of the results. */
  after?: string;
  /** Texts of the page → what the test has instead. */
  replace?: Record<string, string>;
}

const portfolio = 'sluice generate --rows 5000 -o portfolio.csv';
const nightly = `cat > nightly.yaml <<'END'
model: credit-default@champion
source: { type: file, path: portfolio.csv }
sink: { type: file, path: nightly.csv }
END`;

/** An audit log of a service that answered one request. */
async function auditedService({ folder }: Session): Promise<string> {
  const service = await startService([`audit.file=${path.join(folder, 'audit.ndjson')}`], folder, { keep: true });
  expect((await service.call('GET', '/api/v1/models')).status).toBe(200);
  await service.running.stop();
  return '';
}

/** The file that the page describes: the export of a bank with its own names, number format, missing values and total line. */
function foreignFile({ folder }: Session): string {
  const portfolioText = Buffer.concat([
    ...generatePortfolio({ rows: 200, seed: 3, ids: true, delimiter: ';', oddness: 'none' }),
  ]).toString('utf8');
  const [header, ...rows] = portfolioText.trimEnd().split('\n');
  const names = header!.split(';');
  const own: Record<string, string> = { application_id: 'ANTRAGSNR', amount: 'KREDITBETRAG', term: 'LAUFZEIT' };
  const numbers = ['amount', 'income', 'monthly_payment', 'pt_income'];
  const german = (value: string, name: string): string =>
    numbers.includes(name) && value !== ''
      ? Number(value).toLocaleString('de-DE', { minimumFractionDigits: 2, maximumFractionDigits: 2 })
      : value;
  const kept = names.flatMap((name, i) => (name === 'source_type' ? [] : [i]));
  const lines = [
    [...kept.map((i) => own[names[i]!] ?? names[i]!), 'FILIALE'],
    ...rows.map((row) => [...kept.map((i) => german(row.split(';')[i]!, names[i]!) || 'N/A'), 'München']),
    ['SUMME', '200', '11.411.700,00', ...kept.slice(2).map(() => '')],
  ];
  writeFileSync(path.join(folder, 'bank.csv'), Buffer.from(lines.map((l) => `${l.join(';')}\r\n`).join(''), 'latin1'));
  const pascal = (name: string) => name.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
  const styled = names.map((name) => (name === 'application_id' ? 'ANTRAGSNR' : pascal(name)));
  const unfamiliar = [
    ['Export für Prüfung', ''],
    ['Stand', '24.11.2026'],
    [...styled, 'FILIALE'],
    ...rows.map((row) => [...names.map((name, i) => german(row.split(';')[i]!, name) || 'N/A'), 'München']),
    ['SUMME', '11.411.700,00', ...names.slice(1).map(() => '')],
  ];
  writeFileSync(
    path.join(folder, 'export.txt'),
    Buffer.from(unfamiliar.map((l) => `${l.join(';')}\r\n`).join(''), 'latin1'),
  );
  const [, pipeline] = /```yaml\n(# nightly\.yaml\n[\s\S]*?)```/.exec(readFileSync('docs/input.md', 'utf8'))!;
  writeFileSync(path.join(folder, 'nightly.yaml'), pipeline!);
  // With the same names and options, both ways of the page write the same predictions.
  return 'sluice run nightly.yaml && mv scored.csv nightly.csv';
}

/** A model of the zoo as credit.onnx, and the applications of its training table that it accepts. */
function writeModel({ folder }: Session): string {
  const [header, ...rows] = readFileSync(path.join(ZOO, 'data/train.csv'), 'utf8').trimEnd().split('\n');
  const names = header!.split(',');
  const required = ['term', 'pension_contributions', 'had_arrears'].map((name) => names.indexOf(name));
  const accepted = rows.filter((row) => required.every((i) => row.split(',')[i] !== ''));
  // Without the two other outcomes of the table.
  const lines = [header!, ...accepted].map((row) => row.split(',').slice(0, -2).join(','));
  writeFileSync(path.join(folder, 'train.csv'), `${lines.join('\n')}\n`);
  copyFileSync(path.join(ZOO, 'models/skl-boosting-int64/model.onnx'), path.join(folder, 'credit.onnx'));
  return ['ann', 'bob']
    .map(
      (name) =>
        `openssl ecparam -name prime256v1 -genkey -noout -out ${name}.pem && openssl ec -in ${name}.pem -pubout -out ${name}.pub.pem`,
    )
    .join('\n');
}

const add = 'sluice model add credit.onnx --training-data train.csv';

function trainedModel(session: Session): string {
  const page = readFileSync('docs/models.md', 'utf8');
  const policy = /```yaml\n# policy.yaml\n([\s\S]*?)```/.exec(page)![1]!;
  // The zoo has no such column.
  writeFileSync(path.join(session.folder, 'policy.yaml'), policy.replace('customer_since', 'term'));
  return `${writeModel(session)}
for i in 1 2 3; do ${add}; done
sluice score train.csv --model credit:1 -o scored.csv --ignore ok && cut -d, -f3 scored.csv > predictions.csv`;
}

function registeredModel(session: Session): string {
  return `${writeModel(session)}
${add}
sluice generate --rows 5000 -o portfolio.csv
openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out key.pub.pem`;
}

const decidedApplications = (): string => `mkdir scored
sluice generate --rows 5000 --ids -o portfolio.csv
sluice generate --rows 5000 --ids --outcome -o labels.csv
awk -F, 'NR == 1 { print $0 ",cohort" } NR > 1 { print $0 ",2026-03" }' labels.csv > outcomes.csv`;

function shippedPipelines({ folder }: Session): string {
  cpSync('pipelines', path.join(folder, 'pipelines'), { recursive: true });
  const [, example] = /```yaml\n(# tls\.yaml[\s\S]*?)```/.exec(readFileSync('docs/pipelines.md', 'utf8'))!;
  writeFileSync(path.join(folder, 'tls.yaml'), example!);
  return '';
}

const ELSEWHERE = { '.': 'another test executes this page' };

const PAGES: Record<string, Page> = {
  'CONTRIBUTING.md': { exempt: { '^np': 'CI runs them' } },
  'README.md': { exempt: ELSEWHERE },
  'examples/README.md': { exempt: { '.': 'needs Docker; test/docs/compose.test.ts reads the file' } },
  'docs/audit-log.md': {
    prepare: auditedService,
    replace: {
      '/var/lib/sluice/audit/': '',
      '4be1…': '$(grep -o \'"sum":"[0-9a-f]*\' audit.ndjson | head -1 | cut -c8-)',
    },
  },
  'docs/benchmarks.md': { exempt: { '^npm run bench': 'takes half an hour' } },
  'docs/commands.md': { exempt: { '.': 'generated; test/doors/commands/help.test.ts parses the examples' } },
  'docs/console.md': {
    prepare: () => portfolio.replace('portfolio.csv', 'in.csv'),
    replace: { '/var/lib/sluice/runs': 'runs' },
  },
  'docs/dead-letters.md': { exempt: { 'sluice dlq': 'needs a broker: test/connectors/kafka/dlq' } },
  'docs/drift.md': { exempt: { '^curl': 'test/doors/http/drift.test.ts' } },
  'docs/exporting.md': { exempt: ELSEWHERE },
  'docs/identity.md': {},
  'docs/input.md': {
    prepare: foreignFile,
    after: `cmp nightly.csv scored.csv && test $(wc -l < scored.csv) = 201
sluice inspect export.txt --model credit-default > report.txt
sh -c "$(tail -n 1 report.txt)" && test $(wc -l < export.scored.csv) = 201`,
  },
  'docs/install.md': {
    exempt: {
      '^npm install': 'test/install',
      '^docker|^BASE=': 'test/image',
      '^sluice init scoring && cd': 'the line before',
    },
  },
  'docs/interpretation.md': { prepare: () => portfolio.replace('5000', '500') },
  'docs/interrupted-runs.md': { prepare: () => `${portfolio}\n${nightly}` },
  'docs/kubernetes.md': { exempt: { '^kubectl|^docker': 'test/kubernetes, test/image' } },
  'docs/models.md': {
    prepare: trainedModel,
    exempt: { '^curl': 'test/doors/http/model-uploads.test.ts' },
  },
  'docs/monitoring.md': {
    prepare: () => `${portfolio}\n${nightly}`,
    replace: { '/var/lib/node_exporter/textfile/': '' },
    exempt: { 'demo:watch|--push-gateway': 'test/monitoring' },
  },
  'docs/object-storage.md': { exempt: { 's3://': 'test/connectors, test/storage' } },
  'docs/open-inference.md': { exempt: { '^curl': 'test/doors/http/open-inference-client.test.ts' } },
  'docs/outcomes.md': {
    prepare: decidedApplications,
    replace: { '/var/lib/node_exporter/': '', 'credit-default:3': 'credit-default:1' },
  },
  'docs/pipelines.md': {
    prepare: shippedPipelines,
    exempt: { 'sluice run|sluice dlq': 'needs a broker: test/connectors/kafka/doors.test.ts' },
  },
  'docs/proof.md': {
    prepare: registeredModel,
    replace: { 'credit/3': 'credit/1', 'credit:4': 'credit:2' },
    exempt: {
      '^SCORES_URL': 'needs a database: test/connectors/postgres',
      '^sluice replay scored.parquet': 'test/proof',
    },
  },
  'docs/python.md': { exempt: { '^npm run pack:python|^pip install': 'test/clients' } },
  'docs/report.md': { prepare: () => portfolio.replace('portfolio.csv', 'in.csv') },
  'docs/score.md': { exempt: { OUT: 'a synopsis' } },
  'docs/serve.md': { exempt: { '.': 'test/docs/examples.test.ts' } },
  'docs/shards.md': {
    prepare: () => `mkdir in parts out work\n${portfolio.replace('portfolio.csv', 'in/portfolio.csv')}`,
    replace: {
      '--shards 16 --shard 3': '--shards 1 --shard 0',
      '--shards 16': '--shards 2',
      '--shard 3': '--shard 1',
      'sluice merge':
        "sluice score --plan plan.json --shard 0 --model credit-default -o 'parts/{name}.{shard}.csv'\nsluice merge",
    },
  },
  'docs/uploads.md': { exempt: { '^curl|^tail': 'test/doors/http/resumable-uploads.test.ts' } },
};

const blocksOf = (page: string, languages: string): string[] =>
  [...page.matchAll(new RegExp(`^( *)\`\`\`(?:${languages})\n([\\s\\S]*?)^ *\`\`\`$`, 'gm'))].map(([, indent, text]) =>
    text!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );

/** A block without the commands that are exempt: a command may continue on further lines. */
function executed(block: string, exempt: readonly RegExp[]): string {
  const commands = block.split(/(?<!\\)\n(?![ \t])/);
  return commands.filter((command) => !exempt.some((pattern) => pattern.test(command))).join('\n');
}

const ALL = [...globSync('docs/*.md'), 'README.md', 'CONTRIBUTING.md', ...globSync('examples/*.md')].sort();
/** Pages whose commands newcomers try first. Those of the others are executed in campaigns. */
const IN_CHECK = [
  'README.md',
  'docs/input.md',
  'docs/models.md',
  'docs/pipelines.md',
  'docs/serve.md',
  'docs/shards.md',
];
const withShell = ALL.filter((page) => blocksOf(readFileSync(page, 'utf8'), 'sh').length > 0);

test('every page with shell commands is in the table', () => {
  expect(withShell.filter((page) => page !== 'docs/tutorial.md')).toEqual(Object.keys(PAGES).sort());
});

for (const [page, { exempt = {}, prepare, replace = {}, after = '' }] of Object.entries(PAGES)) {
  const patterns = Object.keys(exempt).map((source) => new RegExp(source));
  const blocks = blocksOf(readFileSync(page, 'utf8'), 'sh');
  // In a shell of its own each: some change the folder.
  const parts = blocks.map((block) => executed(block, patterns)).filter((text) => text.trim() !== '');
  const script = parts.map((text) => `(\n${text}\n)`).join('\n');
  const commands = blocks.join('\n').split(/(?<!\\)\n(?![ \t])/);
  test(`${page}: every exemption matches a command`, () => {
    expect(patterns.filter((pattern) => !commands.some((c) => pattern.test(c))).map(String)).toEqual([]);
    expect(Object.keys(replace).filter((text) => !script.includes(text))).toEqual([]);
  });
  if (script.trim() === '') continue;
  const testHere = IN_CHECK.includes(page) ? checkTestNeeding : campaignTestNeeding;
  testHere(['bash', 'curl', 'openssl', 'Python 3'], `${page}: the commands succeed`, async () => {
    const session = new Session();
    onTestFinished(() => session.close());
    const first = (await prepare?.(session)) ?? '';
    const here = Object.entries(replace).reduce((text, [from, to]) => text.replaceAll(from, to), script);
    const output = await session.runAsync(
      `set -ex\nexport SLUICE_EXIT_REJECTED=0\n${first}\n${here}\n${after}\necho 'all done'`,
    );
    expect(output, output).toMatch(/\nall done\n$/);
  });
}

/** YAML of other programs, or with something left out, by their first lines. */
const OTHER_YAML = ['# keys.yaml', 'images:', '# loan-applications.test.yaml'];
/** What a fragment of a pipeline leaves out. */
const WHOLE = {
  model: 'credit-default@champion',
  source: { type: 'kafka', topic: 'in', group: 'scoring' },
  sink: { type: 'kafka', topic: 'out' },
};
/** Keys of a policy file that are not keys of a pipeline. */
const POLICY = ['scorecard', 'decisions', 'reasons', 'reasons_max'];

const fragments = ALL.flatMap((page) =>
  blocksOf(readFileSync(page, 'utf8'), 'yaml').map((text) => ({ page, text, start: text.split('\n')[0]! })),
).filter(({ text }) => !OTHER_YAML.some((start) => text.startsWith(start)));

test('the pages have YAML', () => {
  expect(fragments.length).toBeGreaterThan(15);
});

test.each(fragments)('$page: the YAML "$start" is valid', async ({ page, text }) => {
  const keys = Object.keys(parse(text) as object);
  const file = path.join(scratch(), 'file.yaml');
  writeFileSync(file, text);
  if (text.startsWith('# sluice.yaml')) await expect(loadConfig(ServerConfigSchema, { file })).resolves.toBeDefined();
  else if (keys.some((key) => POLICY.includes(key))) await expect(readPolicy(file)).resolves.toBeDefined();
  else {
    const { source, sink, ...rest } = WHOLE;
    const ends = keys.includes('gate')
      ? { source: { type: 'file', path: 'in.csv' }, sink: { type: 'file', path: 'out.csv' } }
      : { source, sink };
    const missing = Object.entries({ ...rest, ...ends }).filter(([key]) => !keys.includes(key));
    const lines = missing.map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`);
    const parsed = await parsePipeline(page, `${text}\n${lines.join('')}`);
    expect(parsed).toMatchObject({ ok: true });
  }
});

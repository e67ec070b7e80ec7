// The examples of docs/serve.md, run as they stand there against a real service; only the port is another.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { asNative, asObjects, startService } from '../support/service.ts';
import { testNeeding } from '../support/tools.ts';

const run = promisify(execFile);
const PAGE = readFileSync('docs/serve.md', 'utf8');

/** The code blocks of a language, with the port of the service. */
const blocks = (language: string, port: number): string[] =>
  [...PAGE.matchAll(/```(\w+)\n([\s\S]*?)```/g)]
    .filter((m) => m[1] === language)
    .map((m) => m[2]!.replaceAll('localhost:8443', `localhost:${port}`));

async function setting() {
  const s = await startService();
  const cwd = s.folder;
  writeFileSync(path.join(cwd, 'tls.crt'), s.running.certificate!);
  const portfolio = (ids: boolean) =>
    Buffer.concat([...generatePortfolio({ rows: 40, seed: 29, ids, delimiter: '\t', oddness: 'none' })]);
  return { s, cwd, portfolio };
}

testNeeding(['bash', 'curl'], 'curl', async () => {
  const { s, cwd, portfolio } = await setting();
  writeFileSync(path.join(cwd, 'portfolio.tsv'), portfolio(true));
  const script = blocks('sh', s.port).find((b) => b.includes('curl'))!;
  const { stdout } = await run('bash', ['-c', script], { cwd, env: { ...process.env, TOKEN: s.token } });
  expect(stdout).toMatch(/^application_id\trow\tprediction\t/);
  expect(stdout.trimEnd().split('\n')).toHaveLength(41);
});

testNeeding(['Python 3 with requests'], 'Python', async () => {
  const { s, cwd, portfolio } = await setting();
  writeFileSync(path.join(cwd, 'portfolio.tsv'), portfolio(false));
  const script = `token = ${JSON.stringify(s.token)}\n${blocks('python', s.port)[0]}`;
  await run('python3', ['-c', script], { cwd });
  expect(readFileSync(path.join(cwd, 'scored.tsv'), 'utf8').trimEnd().split('\n')).toHaveLength(41);
});

test('TypeScript', async () => {
  const { s, cwd, portfolio } = await setting();
  const applications = asNative(asObjects(portfolio(false).toString().replaceAll('\t', ',')));
  const file = path.join(cwd, 'example.mts');
  writeFileSync(
    file,
    `const token = ${JSON.stringify(s.token)};\nconst applications = ${JSON.stringify(applications)};\n${blocks('ts', s.port)[0]}\nconsole.log(JSON.stringify({ n: predictions.length, summary }));\n`,
  );
  const { stdout } = await run(process.execPath, [file], {
    cwd,
    env: { ...process.env, NODE_EXTRA_CA_CERTS: path.join(cwd, 'tls.crt') },
  });
  expect(JSON.parse(stdout)).toEqual({ n: 40, summary: { rows: 40, scored: 40, rejected: 0 } });
});

test('the page under /docs and the document are served without a key', async () => {
  const { s } = await setting();
  const page = await s.call('GET', '/docs', { token: null });
  expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
  expect(page.text).not.toMatch(/(src|href)="http/);
  const document = await s.call('GET', '/openapi.json', { token: null });
  expect(document.json).toEqual(JSON.parse(readFileSync('docs/openapi.json', 'utf8')));
  const other = await s.call('PUT', '/api/v1/models');
  expect([other.status, other.headers.allow]).toEqual([405, 'GET, HEAD, POST']);
});

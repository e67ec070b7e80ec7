// Values of an input, and names that only it knows, are told nowhere: not in answers, lists, logs, metrics or jobs.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scratch, sluice } from '../support/cli.ts';
import { asNative, asObjects, type CallOptions, PREDICT, predictUrl, startService } from '../support/service.ts';
import { checkTest } from '../support/tiers.ts';

const CANARY = 'Jane.Doe-77';
/** As it stands, or as a URL, a header or JSON would write it. */
const SUNG = /jane.{0,3}doe/i;

const clean = (delimiter: string): string[] =>
  Buffer.concat([...generatePortfolio({ rows: 3, seed: 3, delimiter, dirty: false })])
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => line.split(delimiter).slice(1).join(delimiter));

/** Inputs of which nothing can be scored, with a canary somewhere. */
function delimitedInputs(delimiter: string): [what: string, text: string][] {
  const [header, ...lines] = clean(delimiter);
  const names = header!.split(delimiter);
  const cells = lines[0]!.split(delimiter);
  const join = (parts: string[]): string => parts.join(delimiter);
  return [
    ...names.map((name, i): [string, string] => [name, `${header}\n${join(cells.with(i, CANARY))}\n`]),
    ['a quoted cell', `${header}\n${join(cells.with(1, `"${CANARY}`))}\n`],
    ['too many cells', `${header}\n${join([...cells, CANARY])}\n`],
    ['no header', `${join(cells.with(0, CANARY))}\n${lines[1]}\n`],
    ['nothing but a name', `${CANARY}\n${CANARY}\n`],
    ['NDJSON', `{"name":"${CANARY}","amount":1}\n`],
    ['JSON', `[{"${CANARY}":"${CANARY}"}]`],
    ...names.map((name, i): [string, string] => [`header ${name}`, `${join(names.with(i, CANARY))}\n${lines[0]}\n`]),
    ['one header cell more', `${header}${delimiter}${CANARY}\n${lines[0]}${delimiter}1\n`],
    ['two header cells more', `${join([header!, CANARY, CANARY])}\n${lines[0]}${delimiter}1${delimiter}2\n`],
  ];
}

function jsonInputs(): [what: string, text: string][] {
  const [header, line] = clean(',');
  const [application] = asNative(asObjects(`${header}\n${line}\n`));
  const of = (more: object): string => JSON.stringify({ ...application, ...more });
  return [
    ...Object.keys(application!).map((name): [string, string] => [name, of({ [name]: CANARY })]),
    ['a key', of({ [CANARY]: 1 })],
    ['an object', of({ amount: { [CANARY]: CANARY } })],
    ['a text', JSON.stringify(CANARY)],
    ['no JSON', `{"amount": ${CANARY}}`],
    ['a cut text', `{"amount": "${CANARY}`],
    ['a header row', `name,${CANARY}`],
  ];
}

checkTest('over HTTP: answers, jobs, metrics and the log', async () => {
  const log: string[] = [];
  const s = await startService([], undefined, { log: (text) => log.push(text) });
  const told: [what: string, text: string][] = [];
  const ask = async (what: string, method: string, url: string, options: CallOptions = {}): Promise<void> => {
    const { status, headers, text, json } = await s.call(method, url, options);
    expect([what, status < 500]).toEqual([what, true]);
    told.push([what, `${JSON.stringify(headers)}\n${text}`]);
    if (status !== 201) return;
    const state = async (): Promise<string> => (await s.call('GET', `/api/v1/scoring/jobs/${json.id}`)).json.state;
    await expect.poll(state).not.toMatch(/waiting|queued|running/);
    told.push([`${what}: job`, (await s.call('GET', `/api/v1/scoring/jobs/${json.id}`)).text]);
  };
  const sung = encodeURIComponent(CANARY);
  const asJob = { prefer: 'respond-async' };
  for (const [i, [what, body]] of delimitedInputs('\t').entries()) {
    await ask(`csv ${what}`, 'POST', predictUrl('csv'), { body });
    if (i % 7 === 0) await ask(`interpreted ${what}`, 'POST', `${PREDICT}/interpretation.csv?modelId=credit-default`, { body }); // biome-ignore format: one line
    if (i % 5 === 0) await ask(`job ${what}`, 'POST', predictUrl('csv'), { body, headers: asJob });
  }
  for (const [i, [what, body]] of jsonInputs().entries()) {
    await ask(`json ${what}`, 'POST', predictUrl('json'), { body });
    await ask(`ndjson ${what}`, 'POST', predictUrl('ndjson'), { body });
    if (i % 5 === 0) await ask(`job ${what}`, 'POST', predictUrl('json'), { body, headers: asJob });
  }
  const good = clean('\t').join('\n');
  const form = `--b\r\ncontent-disposition: form-data; name="${CANARY}"; filename="${CANARY}.csv"\r\n\r\n${CANARY}\r\n--b--\r\n`;
  await ask('form', 'POST', predictUrl('csv'), {
    body: form,
    headers: { 'content-type': 'multipart/form-data; boundary=b' },
  });
  const queries = ['passthrough', 'delimiter', 'on_invalid', 'top_effects', 'reasons', sung].map((name) => `&${name}=${sung}`); // biome-ignore format: one line
  for (const query of queries) await ask(query, 'POST', predictUrl('csv', query), { body: good });
  const paths = [
    `/${sung}`,
    `/${sung}%`,
    `/${sung.repeat(2000)}`,
    `${PREDICT}.${sung}`,
    `${PREDICT}.csv?modelId=${sung}`,
    `${PREDICT}.csv?modelId=credit-default:${sung}`,
    `${PREDICT}.csv?modelId=credit-default@${sung}`,
    `/api/v1/scoring/jobs/${sung}`,
    `/api/v1/scoring/jobs/${sung}/result`,
    `/api/v1/models/${sung}`,
    `/docs/${sung}`,
  ];
  for (const url of paths) for (const method of ['GET', 'POST', 'DELETE']) await ask(`${method} ${url}`, method, url, { body: method === 'POST' ? good : '' }); // biome-ignore format: one line
  const headers = ['authorization', 'content-type', 'content-encoding', 'idempotency-key', 'prefer', 'content-digest', 'traceparent', 'x-request-id', 'range', 'origin', 'x-forwarded-proto', 'te']; // biome-ignore format: one line
  for (const name of headers) await ask(name, 'POST', predictUrl('csv'), { body: good, headers: { [name]: CANARY } });
  told.push(['jobs', (await s.call('GET', '/api/v1/scoring/jobs')).text]);
  told.push(['metrics', (await s.call('GET', '/metrics')).text], ['log', log.join('\n')]);
  expect(told.length).toBeGreaterThan(150);
  expect(told.filter(([, text]) => SUNG.test(text)).map(([what, text]) => `${what}: ${text}`)).toEqual([]);
});

checkTest('on the command line: words, summary, list of rejected rows and metrics', async () => {
  const folder = scratch();
  const columns = clean(',')[0]!.split(',');
  // Of the columns some, of everything else all but what differs by the column.
  const chosen = delimitedInputs(',').filter(([what]) => !what.startsWith('header ') && columns.indexOf(what) < 8);
  const told: string[] = [];
  for (const [i, [what, text]] of [...chosen, ...jsonInputs().slice(-3)].entries()) {
    const json = i >= chosen.length;
    const input = path.join(folder, json ? `in-${i}.ndjson` : `in-${i}.csv`);
    writeFileSync(input, text);
    const files = ['-o', path.join(folder, 'out.ndjson'), '--rejects', path.join(folder, `list-${i}.csv`)];
    const measured = ['--metrics-file', path.join(folder, 'sluice.prom')];
    const run = await sluice(['score', input, '-m', 'credit-default', ...files, ...measured, '--json']);
    expect([what, run.code]).not.toEqual([what, 0]);
    told.push(`${what}: ${run.stdout}${run.stderr}`);
    for (const file of readdirSync(folder)) if (!file.startsWith('in-')) told.push(`${what}: ${file}: ${readFileSync(path.join(folder, file), 'utf8')}`); // biome-ignore format: one line
  }
  expect(told.filter((text) => SUNG.test(text))).toEqual([]);
});

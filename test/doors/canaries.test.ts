// Values of an input, and names that only it knows, are told nowhere: not in answers, lists, logs, metrics or jobs.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { CANARY, clean, delimitedInputs, jsonInputs, SUNG } from '../support/canaries.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { collectedLog } from '../support/collected-log.ts';
import { type CallOptions, PREDICT, predictUrl, startService } from '../support/service.ts';
import { checkTest } from '../support/tiers.ts';

checkTest('over HTTP: answers, jobs, metrics and the log', async () => {
  const { log, lines, text: logged } = collectedLog();
  const s = await startService([], undefined, { log });
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
  for (const name of headers)
    await ask(name, 'POST', predictUrl('csv'), {
      body: good,
      headers: { [name]: name === 'x-request-id' ? `${CANARY} ${CANARY}` : CANARY },
    });
  told.push(['jobs', (await s.call('GET', '/api/v1/scoring/jobs')).text]);
  told.push(['metrics', (await s.call('GET', '/metrics')).text], ['log', logged()]);
  // Every request has left a line: all of them are looked at.
  expect(lines.filter((line) => line.event === 'request').length).toBeGreaterThan(150);
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
    const run = await sluiceHere(['score', input, '-m', 'credit-default', ...files, ...measured, '--json']);
    expect([what, run.code]).not.toEqual([what, 0]);
    told.push(`${what}: ${run.stdout}${run.stderr}`);
    for (const file of readdirSync(folder)) if (!file.startsWith('in-')) told.push(`${what}: ${file}: ${readFileSync(path.join(folder, file), 'utf8')}`); // biome-ignore format: one line
  }
  expect(told.filter((text) => SUNG.test(text))).toEqual([]);
});

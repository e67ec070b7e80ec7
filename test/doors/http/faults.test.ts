// Faults of the file system under a service that answers: each is found in the log by the id the client holds, under the code the client
// got, and none ends the process or says anything of an application.
import https from 'node:https';
import { expect } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { CANARY, SUNG } from '../../support/canaries.ts';
import { type Faulty, startFaulty } from '../../support/faulty-service.ts';
import { call, predictUrl, type Reply } from '../../support/service.ts';
import { checkTest, times } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const FAULTS = times('faults', { quick: 0, check: 40, campaigns: 400 });
const ERRNOS = ['ENOENT', 'EACCES', 'EIO', 'ENOSPC', 'EMFILE'] as const;

/** What a client may be told of a fault of the disk of the server; ENOENT of a file of a model means that it is not there. */
const TOLD: Record<string, readonly string[]> = {
  ENOSPC: ['output_full'],
  EMFILE: ['overloaded'],
  EIO: ['internal_error'],
  EACCES: ['internal_error'],
  ENOENT: ['internal_error'],
};
/** Codes of what is wrong with the files of a job once it runs: its upload and its result are opened as those of any run. */
const OF_JOBS = ['input_not_found', 'input_unreadable', 'output_unwritable', 'output_failed'];
/** Codes of what is wrong with a registry or a package that cannot be read. */
const OF_MODELS = ['registry_unavailable', 'model_not_found', 'model_invalid', 'model_hash_mismatch'];

/** Rows that are scored, each with the canary in a column that is passed through. */
function rows(n: number): string {
  const [header, line] = Buffer.concat([...generatePortfolio({ rows: 1, seed: 3, delimiter: '\t', oddness: 'none' })])
    .toString()
    .split('\n');
  return `${header}\tname\n${`${line}\t${CANARY}\n`.repeat(n)}`;
}
const SMALL = rows(20);
const LARGE = rows(40_000);

/** Sends all of a body before it reads: the answer has to wait in a file. */
function sendFirst({ port, token }: Faulty, url: string, id: string): Promise<Reply> {
  return new Promise((resolve) => {
    const headers = {
      authorization: `API-Key ${token}`,
      'x-request-id': id,
      'content-length': Buffer.byteLength(LARGE),
    };
    const request = https.request({ host: '127.0.0.1', port, method: 'POST', path: url, rejectUnauthorized: false, agent: false, headers }); // biome-ignore format: one line
    const none: Reply = { status: 0, headers: {}, text: '', bytes: Buffer.alloc(0), json: null };
    request.on('error', () => resolve(none));
    request.on('response', (response) => {
      let text = '';
      const end = () => {
        const json = response.complete && response.statusCode! >= 400 ? JSON.parse(text) : null;
        resolve({
          status: response.complete ? response.statusCode! : 0,
          headers: response.headers,
          text,
          bytes: Buffer.from(text),
          json,
        });
      };
      response.on('error', () => {});
      const read = () => {
        response.on('close', end);
        response.on('data', (chunk) => {
          text += chunk;
        });
      };
      // A refusal comes while the rest of the body is still being sent.
      if (request.writableFinished || response.statusCode! >= 400) read();
      else request.once('finish', read);
    });
    request.end(LARGE);
  });
}

const JOBS = '/api/v1/scoring/jobs';
const ACTIONS: Record<string, (s: Faulty, id: string) => Promise<Reply>> = {
  answer: (s, id) => call(s.port, s.token, 'POST', predictUrl('csv', '&passthrough=name'), { body: SMALL, headers: { 'x-request-id': id } }), // biome-ignore format: one line
  models: (s, id) => call(s.port, s.token, 'GET', '/api/v1/models', { headers: { 'x-request-id': id } }),
  spilled: (s, id) => sendFirst(s, predictUrl('csv', '&passthrough=name'), id),
  job: async (s, id) => {
    const headers = { 'x-request-id': id, prefer: 'respond-async' };
    const made = await call(s.port, s.token, 'POST', predictUrl('csv', '&passthrough=name'), { body: SMALL, headers });
    if (made.status !== 201) return made;
    const state = () => call(s.port, s.token, 'GET', `${JOBS}/${made.json.id}`);
    await until(async () => !/queued|running/.test((await state()).json.state));
    const job = await state();
    await call(s.port, s.token, 'GET', `${JOBS}/${made.json.id}/result`);
    await call(s.port, s.token, 'DELETE', `${JOBS}/${made.json.id}`);
    return job.json.state === 'done' ? made : { ...made, json: { ...made.json, jobCode: job.json.error.code }, text: job.text }; // biome-ignore format: one line
  },
};

checkTest(
  'a fault of the disk is found by the id the client holds, under the code it got; nothing ends, nothing is told of a row',
  async () => {
    const s = await startFaulty();
    const wrong: unknown[] = [];
    const seen = new Map<string, number>();
    let faults = 0;
    for (let round = 0; faults < FAULTS; round++) {
      const errno = ERRNOS[round % ERRNOS.length]!;
      const action = ['job', 'answer', 'job', 'models', 'job', 'spilled', 'job'][round % 7]!;
      const id = `fault-${round}`;
      s.plant(1 + (Math.floor(round / 7) % 12), errno);
      const reply = await ACTIONS[action]!(s, id);
      // The answer may be here before the message that says which fault it was.
      if (reply.status === 0 || reply.status >= 400 || reply.json?.jobCode !== undefined)
        await expect.poll(s.fired).not.toBe('');
      const fired = s.fired();
      s.plant(0, '');
      if (fired !== '') faults++;
      const place = { round, errno, action, fired, status: reply.status };
      const of = () => s.lines().filter((l) => l.request_id === id);
      await expect.poll(() => of().some((l) => l.event === 'request'), { message: JSON.stringify(place) }).toBe(true);
      const request = of().find((l) => l.event === 'request')!;
      const code = reply.json?.jobCode ?? reply.json?.code;
      seen.set(`${errno} ${fired || 'none'} ${action}: ${reply.status} ${code ?? ''}`, 1 + (seen.get(`${errno} ${fired || 'none'} ${action}: ${reply.status} ${code ?? ''}`) ?? 0)); // biome-ignore format: one line
      if (reply.json?.jobCode !== undefined) {
        const failed = of().find((l) => l.event === 'job_failed');
        if (failed?.code !== code) wrong.push({ ...place, code, logged: failed });
      } else if (reply.status >= 400 || reply.status === 0) {
        if (reply.status === 0 ? request.cut !== true : request.code !== code)
          wrong.push({ ...place, code, logged: request });
      } else if (request.code !== undefined) wrong.push({ ...place, logged: request });
      const told = code ?? (reply.status === 0 ? request.code : undefined);
      if (
        told !== undefined &&
        ![...TOLD[errno]!, ...OF_MODELS, ...(action === 'job' ? OF_JOBS : [])].includes(String(told))
      )
        wrong.push({ ...place, told });
      if (told !== undefined && fired === '') wrong.push({ ...place, told, without: 'a fault' });
      if (reply.status !== 200 && reply.status !== 201 && SUNG.test(reply.text))
        wrong.push({ ...place, sung: reply.text });
      if (reply.text.includes(s.folder)) wrong.push({ ...place, names: reply.text });
      // What could not be read is not taken for what is not there: without its aliases, another version would answer.
      const unread = /^read(dir|File)$/.test(fired) && errno !== 'ENOENT' && errno !== 'EACCES' && action === 'models';
      if (unread && reply.json?.code !== 'registry_unavailable') wrong.push({ ...place, unread });
      expect([place, s.alive()]).toEqual([place, true]);
    }
    expect(wrong).toEqual([]);
    expect((await call(s.port, s.token, 'POST', predictUrl('json'), { body: '[]' })).status).toBe(200);
    const metrics = (await call(s.port, s.token, 'GET', '/metrics')).text;
    expect(metrics).not.toMatch(/sluice_process_faults_total\{kind="uncaught_exception"\} [1-9]/);
    expect(await s.stop()).toBe(0);
    expect(`${s.words()}${metrics}${s.collector.text()}`).not.toMatch(SUNG);
    expect(s.collector.spans.length).toBeGreaterThan(FAULTS);
  },
);

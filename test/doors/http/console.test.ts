// The console in Chromium: every view in light on a screen and in dark on a phone, with axe-core, without external requests, for two tenants.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { columnFromArray, tableFromColumns, tableToIPC } from '@uwdata/flechette';
import { parquetWriteBuffer } from 'hyparquet-writer';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { openPage, type WatchedPage } from '../../support/browser.ts';
import { sluiceHere } from '../../support/cli.ts';
import { type ConsoleService, HOSTILE, startConsoleService } from '../../support/console-service.ts';
import { fileFolder } from '../../support/file-folder.ts';
import { axeViolations, browserOfFile, inBrowser, LOOKS, pageOverflow } from '../../support/page-checks.ts';
import { call, startService } from '../../support/service.ts';

/** Screenshots for people. */
const PICTURES = path.resolve('coverage/console');
const FOLDER = 'src/doors/http/console';

let s: ConsoleService;
beforeAll(async () => {
  s = await startConsoleService(fileFolder());
});
afterAll(() => s.close());
// Closed before the service, whose connections it holds.
const browser = browserOfFile(PICTURES);

const violationsAndOverflow = async (page: Page) => [...(await axeViolations(page)), await pageOverflow(page)];

async function opened(token: string, options: Parameters<typeof openPage>[1] = {}, url = s.url): Promise<WatchedPage> {
  const watched = await openPage(browser(), options);
  onTestFinished(() => watched.close());
  const { page } = watched;
  await page.goto(`${url}/console`);
  await page.fill('#key', token);
  await page.click('button.primary');
  await page.waitForSelector('nav');
  return watched;
}

async function show(page: Page, hash: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
  await loaded(page);
}

const loaded = (page: Page) => page.waitForSelector('[aria-busy]', { state: 'detached' });

/** The text of the view, without what screen readers alone hear. */
const textOf = async (page: Page): Promise<string> => (await page.textContent('main')) ?? '';

const drop = (page: Page, file: string) => page.setInputFiles('#file', file);

async function runOf(token: string): Promise<string> {
  const { json } = await call(Number(new URL(s.url).port), token, 'GET', '/api/v1/runs');
  return json.runs.find((run: { name: string; state: string }) => run.state === 'rejected_rows').id;
}

async function scoreFile(page: Page, file: string): Promise<void> {
  await show(page, 'file');
  await page.waitForSelector('#model');
  await drop(page, file);
  await page.click('button:has-text("Score the file")');
  await page.waitForSelector('button:has-text("Download predictions")');
}

/** The views with the work that fills them. */
const VIEWS: [name: string, open: (page: Page) => Promise<unknown>][] = [
  ['overview', (page) => show(page, 'overview')],
  ['model', (page) => show(page, 'model/model-alpha')],
  [
    'run',
    async (page) => {
      await show(page, `run/${await runOf(s.tokens.alpha)}`);
      await page.waitForSelector('text=intact');
    },
  ],
  [
    'try',
    async (page) => {
      await show(page, 'try/model-alpha');
      await page.waitForSelector('.waterfall');
    },
  ],
  ['file', (page) => scoreFile(page, s.portfolio)],
  [
    'drift',
    async (page) => {
      await show(page, 'drift');
      await page.waitForSelector('.small-charts');
      await loaded(page);
    },
  ],
];

for (const [look, options] of LOOKS) {
  inBrowser(`every view is accessible and fits the window: ${look}`, async () => {
    const { page, requests, faults } = await opened(s.tokens.alpha, options);
    const found: Record<string, unknown> = {};
    for (const [view, open] of VIEWS) {
      await open(page);
      found[view] = await violationsAndOverflow(page);
      await page.screenshot({ path: path.join(PICTURES, `${view}-${look}.png`), fullPage: true });
    }
    await page.click('text=Log out');
    found.login = await violationsAndOverflow(page);
    await page.screenshot({ path: path.join(PICTURES, `login-${look}.png`) });
    expect(found).toEqual(Object.fromEntries([...VIEWS.map(([view]) => view), 'login'].map((view) => [view, [0]])));
    expect(requests.filter((url) => !url.startsWith(`${s.url}/`) && !url.startsWith('blob:'))).toEqual([]);
    expect(faults).toEqual([]);
  });
}

test('the page, its script and its style have at most 40 kB compressed, and a policy without exceptions', async () => {
  const names = ['console.html', 'console.js', 'console.css', 'icon.svg'];
  const bytes = names.map((name) => gzipSync(readFileSync(path.join(FOLDER, name)), { level: 9 }).length);
  expect(bytes.reduce((a, b) => a + b)).toBeLessThanOrEqual(40_000);
  const port = Number(new URL(s.url).port);
  for (const url of ['/console', '/console/console.js', '/console/console.css', '/console/icon.svg']) {
    const { status, headers } = await call(port, '', 'GET', url, { token: null });
    const policy = String(headers['content-security-policy']);
    expect([url, status]).toEqual([url, 200]);
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/);
    expect(policy).not.toMatch(/unsafe|data:|\*/);
    expect(policy).toContain("frame-ancestors 'none'");
  }
  const packed = await call(port, '', 'GET', '/console/console.js', { headers: { 'accept-encoding': 'gzip' } });
  expect([packed.headers['content-encoding'], packed.bytes.length]).toEqual(['gzip', bytes[1]]);
  const html = readFileSync(path.join(FOLDER, 'console.html'), 'utf8');
  expect(html).not.toMatch(/<style|style=|<script(?! type="module" src="\/console\/console\.js"><)|https?:/);
  const script = readFileSync(path.join(FOLDER, 'console.js'), 'utf8');
  expect(script).not.toMatch(
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|localStorage/,
  );
});

test('the root leads to the console; console: false removes both, and settings need no key and reveal no address', async () => {
  const port = Number(new URL(s.url).port);
  const root = await call(port, '', 'GET', '/', { token: null });
  expect([root.status, root.headers.location]).toEqual([302, '/console']);
  const { json } = await call(port, '', 'GET', '/console/settings.json', { token: null });
  expect(json).toEqual({ version: expect.any(String), logins: [] });
  const without = await startService(['console=false']);
  for (const url of ['/', '/console', '/console/console.js', '/console/settings.json']) {
    expect([url, (await without.call('GET', url)).status]).toEqual([url, 404]);
  }
  const linked = await startService(['console.grafana=https://grafana.example/d/1']);
  expect((await linked.call('GET', '/console/settings.json', { token: null })).text).not.toContain('grafana');
});

inBrowser('a wrong key is rejected in words, and the key is kept nowhere but in memory', async () => {
  const { page } = await opened(s.tokens.alpha);
  expect(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])')).toBe(
    '[{},{},""]',
  );
  await page.reload();
  await page.waitForSelector('#key');
  await page.fill('#key', 'sluice_wrong');
  await page.click('button.primary');
  expect(await page.textContent('[role=alert]')).toMatch(/^This key is not valid\. Check/);
});

inBrowser(
  'a report card has headings, facts and lists; booleans have values; unknown moves are not recorded',
  async () => {
    const { page } = await opened(s.tokens.alpha);
    await show(page, 'model/model-alpha');
    await page.waitForSelector('.text li');
    const inCard = (selector: string) => page.textContent(`.text ${selector}`);
    expect([await inCard('dt'), await inCard('dd code'), await inCard('h3')]).toEqual([
      'model file',
      'f05a70',
      'Against the training library',
    ]);
    expect(await textOf(page)).not.toContain('| ---');
    expect(await page.textContent('tr:has-text("had_arrears")')).toContain('booleantrue, false');
    const beta = await opened(s.tokens.beta);
    await show(beta.page, 'overview');
    expect(await beta.page.textContent('tr:has-text("model-beta")')).toMatch(/version 1not recordednot recorded/);
    await show(beta.page, 'model/model-beta');
    expect(await textOf(beta.page)).toContain('No move is recorded');
  },
);

inBrowser('two tenants see nothing of each other in any view', async () => {
  for (const tenant of ['alpha', 'beta'] as const) {
    const other = tenant === 'alpha' ? 'beta' : 'alpha';
    const { page } = await opened(s.tokens[tenant]);
    for (const hash of ['overview', 'try', 'file', 'drift', `model/model-${tenant}`]) {
      await show(page, hash);
      await page.waitForSelector('main *:has-text("model-")', { state: 'attached' });
      const text = (await page.textContent('body')) ?? '';
      expect([hash, text.includes(`model-${other}`), text.includes(`${other}.csv`)]).toEqual([hash, false, false]);
    }
    await show(page, `model/model-${other}`);
    const theirs = await page.textContent('[role=alert]');
    await show(page, 'model/model-none');
    expect(await page.textContent('[role=alert]')).toBe(theirs);
  }
});

inBrowser('hostile names of columns, files, runs, pipelines and people are shown as text', async () => {
  const { page, faults } = await opened(s.tokens.auditor);
  const shown: Record<string, boolean> = {};
  const look = async (view: string) => {
    await expect.poll(() => textOf(page), { message: view }).toContain(HOSTILE);
    shown[view] = true;
    expect(await page.evaluate('[window.hacked ?? null, document.images.length, document.scripts.length]')).toEqual([
      null,
      1,
      1,
    ]);
  };
  await show(page, 'overview');
  await look('overview');
  await show(page, 'model/model-odd');
  await look('model');
  await page.click('text=Overview');
  await loaded(page);
  await page.click('tr:has-text("window.hacked") a[href^="#run/"]');
  await loaded(page);
  await look('run');
  await show(page, 'try/model-odd');
  await page.waitForSelector('.waterfall');
  // The largest amount gives the reason with the hostile text.
  await page.fill('#f0', '9000000');
  await page.waitForSelector('.reasons:has-text("window.hacked")');
  await look('try');
  const header = readFileSync(s.portfolio, 'utf8').split('\n').slice(0, 40).join('\n');
  const file = path.join(s.folder, `${HOSTILE.replaceAll('/', '')}.csv`);
  writeFileSync(file, header.replace(',amount,', `,${HOSTILE},`).replace('application_id', `id${HOSTILE}`));
  await show(page, 'file/model-odd');
  await page.waitForSelector('#model');
  await page.selectOption('#model', 'model-odd');
  await drop(page, file);
  await page.click('button:has-text("Score the file")');
  await page.waitForSelector('button:has-text("Download predictions")');
  await look('file');
  await show(page, 'drift/model-odd');
  await loaded(page);
  await page.waitForSelector('text=rows are too few');
  await look('drift');
  expect(shown).toEqual({ overview: true, model: true, run: true, try: true, file: true, drift: true });
  expect(faults).toEqual([]);
});

inBrowser(
  '100,000 rows: rejects appear with the first answer, and rows, files and counts are those of the service',
  async () => {
    const file = path.join(s.folder, 'large.csv');
    await sluiceHere([
      'generate',
      '--rows',
      '100000',
      '--seed',
      '5',
      '--ids',
      '--faults',
      '200',
      '-o',
      file,
      '--faults-json',
      `${file}.json`,
    ]);
    const { page, faults } = await opened(s.tokens.alpha);
    await show(page, 'file');
    await page.waitForSelector('#model');
    await drop(page, file);
    // All slices but the first wait until the rejects of the first are shown. The page sends several at once, in any order.
    const shown = Promise.withResolvers<void>();
    const [, firstRow] = readFileSync(file, 'utf8').split('\n', 2);
    let slices = 0;
    await page.route('**/predict.csv*', async (route) => {
      slices++;
      if (!route.request().postDataBuffer()?.includes(firstRow!)) await shown.promise;
      await route.continue();
    });
    await page.click('button:has-text("Score the file")');
    await page.waitForSelector('tr:has-text("column_count")');
    shown.resolve();
    await page.waitForSelector('button:has-text("Download predictions")');
    expect(slices).toBeGreaterThan(5);
    expect(await figures(page)).toEqual(['100,000', '99,800', '200']);
    const saved = async (button: string) => {
      const [download] = await Promise.all([page.waitForEvent('download'), page.click(`button:has-text("${button}")`)]);
      return [download.suggestedFilename(), readFileSync(await download.path(), 'utf8')] as const;
    };
    const [name, predictions] = await saved('Download predictions');
    expect(name).toBe('large.scored.csv');
    const port = Number(new URL(s.url).port);
    const url = '/api/v1/scoring/predict.csv?modelId=model-alpha&delimiter=comma&passthrough=*';
    const whole = await call(port, s.tokens.alpha, 'POST', url, { body: readFileSync(file) });
    expect(predictions === whole.text).toBe(true);
    const [, rejects] = await saved('Download rejected rows');
    const found = rejects
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => line.split(',').slice(0, 3).join());
    const expected = JSON.parse(readFileSync(`${file}.json`, 'utf8')) as { row: number; line: number; code: string }[];
    expect(found).toEqual(expected.map(({ row, line, code }) => `${row},${line},${code}`));
    expect(faults).toEqual([]);
  },
);

/** Columns of the rows of a CSV file; `asNumbers`: also of the category credit_product_id. */
function columnsOf(csv: string, rows: number, asNumbers = false): { name: string; data: unknown[] }[] {
  const [head, ...lines] = csv.trimEnd().split('\n');
  const cells = lines
    .map((line) => line.split(','))
    .filter((one) => one.length === head!.split(',').length)
    .slice(0, rows);
  const texts = /_type$|_id$|marital_status/;
  return head!.split(',').map((name, i) => {
    const isText = texts.test(name) && !(asNumbers && name === 'credit_product_id');
    const values = cells.map((one) => {
      const text = one[i]!;
      if (text === '') return null;
      if (isText) return text;
      return /^(?:true|false)$/.test(text) ? text === 'true' : Number(text);
    });
    return { name, data: values.some(Number.isNaN) ? values.map((v) => (Number.isNaN(v) ? null : v)) : values };
  });
}

function parquetOf(columns: { name: string; data: unknown[] }[]): Buffer {
  const columnData = columns.map(({ name, data }) => {
    const kind = typeof data.find((value) => value !== null);
    const type = kind === 'string' ? 'STRING' : kind === 'boolean' ? 'BOOLEAN' : 'DOUBLE';
    return { name, data: data as string[], type } as const;
  });
  return Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 20_000 }));
}

async function uploadTable(page: Page, name: string, bytes: Uint8Array): Promise<void> {
  const file = path.join(s.folder, name);
  writeFileSync(file, bytes);
  await show(page, 'file');
  await page.waitForSelector('#model');
  await drop(page, file);
  await page.waitForSelector('.badge:has-text("fit")');
}

const figures = (page: Page) =>
  page.evaluate('[...document.querySelectorAll(".figures .figure")].slice(0, 3).map((n) => n.firstChild.textContent)');

inBrowser('a Parquet file is compared before it is sent, and scored with its rejected rows', async () => {
  const { page, faults, requests } = await opened(s.tokens.alpha);
  const file = path.join(s.folder, 'table.csv');
  await sluiceHere(['generate', '--rows', '40000', '--seed', '9', '--ids', '--oddness', 'none', '-o', file]);
  const columns = columnsOf(readFileSync(file, 'utf8'), 40_000);
  // A row without any value of the model.
  for (const { name, data } of columns) if (name !== 'application_id') data[6] = null;
  await uploadTable(page, 'table.parquet', parquetOf(columns));
  expect(await textOf(page)).toMatch(/Parquet, 40,000 rows.*23 of 23 columns.*application_id/s);
  await page.click('button:has-text("Score the file")');
  await page.waitForSelector('button:has-text("Download predictions")');
  expect(await figures(page)).toEqual(['40,000', '39,999', '1']);
  expect(await textOf(page)).toMatch(/empty_row.*7/s);
  expect(await violationsAndOverflow(page)).toEqual([0]);
  await page.screenshot({ path: path.join(PICTURES, 'file-parquet.png'), fullPage: true });
  const saved = async (button: string) => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.click(`button:has-text("${button}")`)]);
    return [download.suggestedFilename(), readFileSync(await download.path(), 'utf8')] as const;
  };
  const [name, predictions] = await saved('Download predictions');
  expect(name).toBe('table.scored.ndjson');
  const port = Number(new URL(s.url).port);
  const url = '/api/v1/scoring/predict/table.ndjson?modelId=model-alpha&passthrough=*';
  const whole = await call(port, s.tokens.alpha, 'POST', url, {
    body: readFileSync(path.join(s.folder, 'table.parquet')),
  });
  expect([predictions === whole.text, predictions.trimEnd().split('\n').length]).toEqual([true, 40_000]);
  const [, rejects] = await saved('Download rejected rows');
  expect(
    rejects
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => line.split(',').slice(0, 3).join()),
  ).toEqual(['7,,empty_row']);
  expect(requests.filter((one) => one.includes('table.ndjson'))).toHaveLength(1);
  expect(faults).toEqual([]);
});

inBrowser(
  'tables with wrong types: Parquet is not sent, Arrow is rejected with the reasons of the service',
  async () => {
    const { page, faults, requests } = await opened(s.tokens.alpha);
    const csv = readFileSync(s.portfolio, 'utf8');
    const wrong = columnsOf(csv, 300, true);
    await uploadTable(page, 'wrong.parquet', parquetOf(wrong));
    expect(await textOf(page)).toContain('The column credit_product_id has numbers; the model takes text.');
    expect(await page.isDisabled('button:has-text("Score the file")')).toBe(true);
    await uploadTable(page, 'missing.parquet', parquetOf(wrong.filter(({ name }) => name !== 'amount')));
    expect(await textOf(page)).toContain('The column amount is missing.');
    await uploadTable(page, 'cut.parquet', parquetOf(wrong).subarray(0, 3000));
    expect(await textOf(page)).toContain('This Parquet file cannot be read. The file is incomplete.');
    expect(requests.filter((one) => one.includes('table.ndjson'))).toEqual([]);
    const arrowOf = (columns: { name: string; data: unknown[] }[]) =>
      Buffer.from(
        tableToIPC(
          tableFromColumns(columns.map(({ name, data }) => [name, columnFromArray(data)] as [string, never])),
          {
            format: 'file',
          },
        )!,
      );
    await uploadTable(page, 'wrong.arrow', arrowOf(wrong));
    await page.click('button:has-text("Score the file")');
    await page.waitForSelector('.badge:has-text("failed")');
    expect(await textOf(page)).toMatch(/bad_type.*credit_product_id contains numbers, but the model takes text/s);
    await uploadTable(page, 'right.arrow', arrowOf(columnsOf(csv, 300)));
    await page.click('button:has-text("Score the file")');
    await page.waitForSelector('button:has-text("Download predictions")');
    expect(await figures(page)).toEqual(['300', '300', '0']);
    expect(faults).toEqual([]);
  },
);

inBrowser('a table that is cancelled ends at once, and a limit of the service is shown', async () => {
  const { page } = await opened(s.tokens.alpha);
  const columns = columnsOf(readFileSync(s.portfolio, 'utf8'), 4000);
  await uploadTable(page, 'table.parquet', parquetOf(columns));
  const held = Promise.withResolvers<void>();
  await page.route('**/table.ndjson*', () => held.promise);
  await page.click('button:has-text("Score the file")');
  await page.waitForSelector('.badge:has-text("sending")');
  await page.click('button:has-text("Cancel")');
  await page.waitForSelector('.badge:has-text("cancelled")');
  held.resolve();
  const small = await startService(['limits.rows=1000']);
  const { page: other } = await opened(small.token, {}, `https://localhost:${small.port}`);
  await uploadTable(other, 'table.parquet', parquetOf(columns));
  await other.click('button:has-text("Score the file")');
  await other.waitForSelector('.badge:has-text("failed")');
  expect(await textOf(other)).toMatch(/limit_exceeded/);
});

inBrowser('six questions of operators are answered on the way from the first view', async () => {
  const { page } = await opened(s.tokens.alpha);
  // The aliases were moved today: tomorrow, they decided yesterday.
  await page.clock.setSystemTime(Date.now() + 86_400_000);
  await show(page, 'try');
  await page.click('nav >> text=Overview');
  await loaded(page);
  const rowOf = async (name: string) => (await page.textContent(`tr:has-text("${name}")`)) ?? '';
  // Which model decided yesterday, and who put it there?
  await expect
    .poll(() => rowOf('challenger'))
    .toMatch(/model-alphaversion 1anna\.berg, .*: first releaseversion 1 \(anna\.berg\)/);
  // Is the topic late?
  expect(await rowOf('loan-applications')).toMatch(/runninglate3,12012\.6 minbad_number 12/);
  expect(await textOf(page)).toContain('late Pipeline loan-applications: the oldest application has waited 12.6 min');
  // Is the file of last night intact?
  await page.click(
    'tr:has-text("rows rejected") a:has-text("check now"), tr:has-text("rows rejected") a:has-text("intact")',
  );
  await page.waitForSelector('tr:has-text("scored.csv") .badge:has-text("intact")');
  // Which column drifts?
  await page.click('text=Drift now');
  const worst = await page.waitForSelector('section[aria-label="Recorded runs"] tr:has-text("score") td:last-child');
  expect(await worst.textContent()).toMatch(/^source_type 1\.1/);
  // Which rows of this file fail?
  await scoreFile(page, s.portfolio);
  expect(await rowOf('bad_boolean')).toBe('bad_boolean1banned: neither true nor false2501');
  // Why was this applicant declined?
  await page.fill('#which', 'A00000011');
  await page.click('form.inline button');
  await page.waitForSelector('.reasons li');
  expect(await page.textContent('.decision')).toMatch(/^decline32\.88 %/);
  expect(await page.textContent('.reasons li')).toMatch(/^R\d\d /);
});

inBrowser('the form predicts on each change, and names the field of a rejected value', async () => {
  const { page } = await opened(s.tokens.alpha);
  await show(page, 'try/model-alpha');
  await page.waitForSelector('.waterfall');
  const first = await page.textContent('.decision');
  await page.fill('#f4', '100');
  await expect.poll(() => page.textContent('.decision')).not.toBe(first);
  await page.fill('#f4', 'much');
  await page.waitForSelector('#f4[aria-invalid=true]');
  expect(await page.textContent('#f4-e')).toContain('number');
  await page.click('summary:has-text("Paste")');
  await page.fill('#paste', '{"income": 51822.68, "term": 12, "nonsense": 1}');
  await page.click('text=Fill the form');
  await page.waitForSelector('.waterfall');
  expect(await page.inputValue('#f4')).toBe('51822.68');
  expect(await page.textContent('#paste-note')).toBe('2 of 23 columns were filled.');
});

inBrowser('everything can be reached with the keyboard', async () => {
  const { page } = await openPage(browser());
  onTestFinished(() => page.context().close());
  await page.goto(`${s.url}/console`);
  await page.waitForSelector('#key');
  const press = async (key: string, times = 1) => {
    for (let i = 0; i < times; i++) await page.keyboard.press(key);
  };
  const focused = () => page.evaluate('document.activeElement.textContent.trim() || document.activeElement.id');
  await press('Tab');
  expect(await focused()).toBe('Skip to the content');
  await press('Tab', 2);
  expect(await focused()).toBe('key');
  await page.keyboard.type(s.tokens.alpha);
  await press('Enter');
  await page.waitForSelector('nav');
  // The heading of a new view has the focus, so that a screen reader reads it.
  expect(await focused()).toBe('Overview');
  await press('Shift+Tab', 2);
  expect(await focused()).toBe('Drift');
  await press('Enter');
  await expect.poll(focused).toBe('Drift');
  await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('H1');
  await show(page, 'file');
  await page.waitForSelector('#model');
  await page.focus('#model');
  await press('Tab');
  expect(await focused()).toBe('file');
});

inBrowser('a file is judged before it is sent, and scoring it can be cancelled', async () => {
  const { page, requests } = await opened(s.tokens.alpha);
  const [header, ...rows] = readFileSync(s.portfolio, 'utf8').split('\n');
  const give = async (name: string, text: string | Buffer) => {
    await page.setInputFiles('#file', { name, mimeType: '', buffer: Buffer.from(text) });
    await page.waitForSelector(`dd:has-text(${JSON.stringify(name)})`);
    return textOf(page);
  };
  await show(page, 'file');
  await page.waitForSelector('#model');
  const lost = header!.replace(',income,', ',Income,').replace(',term,', ',');
  const text = await give('lost.csv', `${lost}\n`);
  expect(text).toContain('The column term is missing.');
  expect(text).toContain('The column income is missing; the file has the similar column Income.');
  expect(await page.isDisabled('button:has-text("Score the file")')).toBe(true);
  expect(await give('o.csv', `${header},ok\n`)).toContain('outcome column ok');
  expect(await give('o.parquet', 'PAR1....')).toContain('Parquet');
  expect(await give('o.xlsx', 'PK....')).toContain('workbook');
  expect(await give('latin.csv', Buffer.from(`\xe4${header}\n`, 'latin1'))).toContain('The header is not UTF-8');
  expect(await give('empty.csv', '')).toContain('empty');
  expect(requests.filter((url) => url.includes('/predict'))).toEqual([]);
  // Cancelled while the service answers the first slice.
  const blocked = Promise.withResolvers<void>();
  await page.route('**/predict.csv*', async (route) => {
    await blocked.promise;
    await route.continue().catch(() => {});
  });
  await give('long.csv', [header, ...rows].join('\n'));
  await page.click('button:has-text("Score the file")');
  await page.click('button:has-text("Cancel")');
  await page.waitForSelector('.badge:has-text("cancelled")');
  blocked.resolve();
  expect(await page.isVisible('text=Download predictions')).toBe(false);
});

inBrowser('NDJSON, a compressed file and a file without any valid row give the rows of the service', async () => {
  const { page } = await opened(s.tokens.alpha);
  const [header, ...rows] = readFileSync(s.portfolio, 'utf8').split('\n', 301);
  const names = header!.split(',');
  const plain = rows.filter((row) => !row.includes('"') && row.split(',').length === names.length);
  const lines = plain.map((row) => JSON.stringify({ meta: { row: 1 }, ...Object.fromEntries(row.split(',').map((cell, i) => [names[i], cell])) })); // biome-ignore format: one line
  const score = async (name: string, buffer: Buffer) => {
    await show(page, 'overview');
    await show(page, 'file');
    await page.waitForSelector('#model');
    await page.setInputFiles('#file', { name, mimeType: '', buffer });
    await page.click('button:has-text("Score the file")');
    await page.waitForSelector('button:has-text("Download")');
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('button:has-text("Download")')]);
    return readFileSync(await download.path(), 'utf8');
  };
  const port = Number(new URL(s.url).port);
  const answer = async (format: string, body: string, query = '') =>
    (await call(port, s.tokens.alpha, 'POST', `/api/v1/scoring/predict.${format}?modelId=model-alpha&passthrough=*${query}`, { body })).text; // biome-ignore format: one line
  const ndjson = `${lines.join('\n')}\n`;
  expect(await score('a.ndjson', Buffer.from(ndjson))).toBe(await answer('ndjson', ndjson));
  const csv = `${[header, ...plain].join('\n')}\n`;
  expect(await score('a.csv.gz', gzipSync(csv))).toBe(await answer('csv', csv, '&delimiter=comma'));
  const bad = `${header}\n${plain
    .slice(0, 3)
    .map((row) => row.replace(/^(A\d+),[^,]*/, '$1,x'))
    .join('\n')}\n`;
  expect(
    (await score('bad.csv', Buffer.from(bad))).split('\n').map((line) => line.split(',').slice(0, 4).join()),
  ).toEqual(['row,line,code,column', '1,2,bad_number,amount', '2,3,bad_number,amount', '3,4,bad_number,amount', '']);
});

inBrowser('a stopped run shows its limits and the largest PSI first; a changed output names the command', async () => {
  const { page } = await opened(s.tokens.alpha);
  const { json } = await call(Number(new URL(s.url).port), s.tokens.alpha, 'GET', '/api/v1/runs');
  const { id } = json.runs.find((run: { state: string }) => run.state === 'gate_stopped');
  await show(page, `run/${id}`);
  expect(await page.textContent('section[aria-label="What happened"]')).toMatch(/a limit is not met \[gate_stopped\]/);
  const cells = await page
    .locator('section[aria-label="Which columns drift?"] tbody td:nth-of-type(1)')
    .allTextContents();
  const shown = cells.map(Number);
  expect(shown.length).toBe(5);
  expect(shown).toEqual(shown.toSorted((a, b) => b - a));
  const recorded = readFileSync(s.output, 'utf8');
  onTestFinished(async () => {
    writeFileSync(s.output, recorded);
    // The service checks the file again, for the tests that follow.
    await show(page, 'overview');
    await show(page, `run/${await runOf(s.tokens.alpha)}`);
    await page.waitForSelector('text=intact');
  });
  writeFileSync(s.output, recorded.replace(',true,', ',false,'));
  await show(page, `run/${await runOf(s.tokens.alpha)}`);
  await page.waitForSelector('section[aria-label="Are the files intact?"] code');
  const files = (await page.textContent('section[aria-label="Are the files intact?"]')) ?? '';
  expect(files).toContain('sluice verify OUTPUT --input INPUT --package FOLDER');
  expect(files).toMatch(/output: the block of rows [\d ,to]+ \(bytes [\d to]+\) changed/);
  expect(files).not.toContain('together name');
});

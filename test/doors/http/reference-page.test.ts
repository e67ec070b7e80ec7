// The page /docs in Chromium: accessible in light, dark and on a phone, sends requests with a key, loads nothing from elsewhere, and shows hostile texts as text.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { OpenApiDocument } from '../../../src/doors/http/openapi/document-types.ts';
import { openPage, type WatchedPage } from '../../support/browser.ts';
import { type ConsoleService, HOSTILE, startConsoleService } from '../../support/console-service.ts';
import { fileFolder } from '../../support/file-folder.ts';
import { axeViolations, browserOfFile, inBrowser, LOOKS, pageOverflow } from '../../support/page-checks.ts';
import { PATIENCE_MS } from '../../support/patience.ts';
import { call } from '../../support/service.ts';

/** Screenshots for people. */
const PICTURES = path.resolve('coverage/reference');

let s: ConsoleService;
beforeAll(async () => {
  s = await startConsoleService(fileFolder());
});
afterAll(() => s.close());
// Closed before the service, whose connections it holds.
const browser = browserOfFile(PICTURES);

/** Waits until the operations are shown. An error names the requests, errors and text of the page. */
async function operationsShown({ page, requests, faults }: WatchedPage): Promise<void> {
  try {
    await page.waitForSelector('.opblock');
  } catch (cause) {
    const shown = await page.innerText('body', { timeout: PATIENCE_MS / 20 }).catch(() => 'the page does not answer');
    throw new Error(JSON.stringify({ requests, faults, shown: shown.slice(0, 500) }), { cause });
  }
}

async function opened(options: Parameters<typeof openPage>[1] = {}): Promise<WatchedPage> {
  const watched = await openPage(browser(), options);
  onTestFinished(() => watched.close());
  await watched.page.goto(`${s.url}/docs`);
  await operationsShown(watched);
  return watched;
}

async function enterKey(page: Page, key: string): Promise<void> {
  await page.click('button.authorize');
  await page.fill('.auth-container input >> nth=0', key);
  await page.click('.auth-container button.authorize >> nth=0');
  await page.click('.close-modal');
}

/** `operation`: its operationId or the path in the identifier of its block. */
async function expand(page: Page, operation: string): Promise<string> {
  const block = `[id="operations-${operation}"]`;
  await page.click(`${block} .opblock-summary-control`);
  await page.waitForSelector(`${block} .try-out__btn`);
  return block;
}

/** Sends the request of an operation. Returns the text of the response. */
async function send(page: Page, block: string, values: Record<string, string> = {}): Promise<string> {
  await page.click(`${block} .try-out__btn`);
  for (const [name, value] of Object.entries(values)) {
    await page.fill(`${block} [data-param-name="${name}"] input`, value);
  }
  await page.click(`${block} .execute`);
  await page.waitForSelector(`${block} .live-responses-table`);
  return page.innerText(`${block} .live-responses-table`);
}

const ofElsewhere = ({ requests }: WatchedPage) =>
  requests.filter((url) => !url.startsWith(`${s.url}/`) && !/^(?:blob|data):/.test(url));

for (const [look, options] of LOOKS) {
  inBrowser(`the list, the dialog for keys, an operation and its answer are accessible: ${look}`, async () => {
    const watched = await opened(options);
    const { page, faults } = watched;
    const found: Record<string, unknown> = {};
    const check = async (state: string) => {
      found[state] = [...(await axeViolations(page)), await pageOverflow(page)];
      await page.screenshot({ path: path.join(PICTURES, `${state}-${look}.png`) });
    };
    await check('list');
    await page.click('button.authorize');
    await page.waitForSelector('.auth-container');
    await check('dialog');
    await page.fill('.auth-container input >> nth=0', s.tokens.alpha);
    await page.click('.auth-container button.authorize >> nth=0');
    await check('authorized');
    await page.click('.close-modal');
    const block = await expand(page, 'scoring-predictJson');
    await check('operation');
    const text = await send(page, block, { modelId: 'model-alpha' });
    expect(text).toMatch(/"modelId": "model-alpha"[\s\S]*"probability": 0\.98[\s\S]*"scored": 1/);
    await check('answer');
    expect(found).toEqual({ list: [0], dialog: [0], authorized: [0], operation: [0], answer: [0] });
    expect(ofElsewhere(watched)).toEqual([]);
    expect(faults).toEqual([]);
  });
}

inBrowser('each format is sent as its example, and the key is neither shown nor stored', async () => {
  const watched = await opened();
  const { page, faults } = watched;
  const refused = await send(page, await expand(page, 'scoring-predictCsv'), { modelId: 'model-alpha' });
  expect(refused).toContain('unauthorized');
  await enterKey(page, s.tokens.alpha);
  const block = '[id="operations-scoring-predictCsv"]';
  await page.click(`${block} .execute`);
  await expect.poll(() => page.innerText(`${block} .live-responses-table`)).toMatch(/0\.9801286/);
  const lines = await send(page, await expand(page, 'scoring-predictInterpretationNdjson'), { modelId: 'model-alpha' });
  expect(lines).toContain('"tree_interventional"');
  expect(await page.content()).not.toContain(s.tokens.alpha);
  expect(await page.innerText(`${block} .curl`)).toContain('API-Key YOUR_KEY');
  const stored = 'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])';
  expect(await page.evaluate(stored)).toBe('[{},{},""]');
  // Nothing that another page of the same browser profile can see has the key.
  const other = await page.context().newPage();
  await other.goto(`${s.url}/docs`);
  await operationsShown({ ...watched, page: other });
  expect(await other.evaluate('document.querySelectorAll("button.authorize.locked").length')).toBe(0);
  expect(ofElsewhere(watched)).toEqual([]);
  expect(faults).toEqual([]);
});

inBrowser('a page whose scripts do not arrive tells what to do, and /docs where the document is', async () => {
  const watched = await openPage(browser());
  onTestFinished(() => watched.close());
  await watched.page.route('**/*.js', (route) => route.abort());
  await watched.page.goto(`${s.url}/docs`);
  expect(await watched.page.innerText('#reference')).toBe(
    'Loading. If this text remains, reload the page. The document is at /openapi.json.',
  );
  await watched.page.goto(`${s.url}/console`);
  expect(await watched.page.innerText('#main')).toBe('Loading. If this text remains, reload the page.');
});

inBrowser('texts of answers and of the document are shown as text', async () => {
  const watched = await openPage(browser());
  onTestFinished(() => watched.close());
  const { page, faults } = watched;
  // No setting puts texts of others into the document; the page must not depend on that.
  await page.route('**/openapi.json', async (route) => {
    const response = await route.fetch();
    const document = (await response.json()) as OpenApiDocument & { info: { description: string } };
    document.info.title = HOSTILE;
    document.info.description = `${HOSTILE} <script>window.hacked=1</script> <a href="javascript:window.hacked=1">x</a>`;
    const operation = document.paths['/api/v1/models/{ref}']!.get!;
    operation.summary = HOSTILE;
    operation.responses['200']!.description = HOSTILE;
    operation.parameters![0]!.description = HOSTILE;
    await route.fulfill({ response, json: document });
  });
  await page.goto(`${s.url}/docs`);
  await operationsShown(watched);
  await enterKey(page, s.tokens.auditor);
  const block = await expand(page, 'models-get_api_v1_models__ref_');
  expect(await page.innerText(block)).toContain(HOSTILE);
  const answer = await send(page, block, { ref: 'model-odd' });
  expect(answer).toContain(HOSTILE);
  const runs = await send(page, await expand(page, 'runs-get_api_v1_runs'));
  expect(runs).toContain(HOSTILE);
  const state = '[window.hacked ?? null, document.scripts.length, document.querySelectorAll("[onerror]").length]';
  expect(await page.evaluate(state)).toEqual([null, 2, 0]);
  expect(await page.evaluate('document.querySelectorAll("a[href^=javascript]").length')).toBe(0);
  expect(ofElsewhere(watched)).toEqual([]);
  expect(faults).toEqual([]);
});

test('the files of the page need no key and have a policy without unsafe sources', async () => {
  const port = Number(new URL(s.url).port);
  const get = (url: string, headers = {}) => call(port, '', 'GET', url, { token: null, headers });
  const html = readFileSync('src/doors/http/reference/reference.html', 'utf8');
  expect(html).not.toMatch(/<style|style=|<script(?! )|https?:/);
  const urls = [...html.matchAll(/(?:src|href)="(\/docs\/[^"]+)"/g)].map(([, url]) => url!);
  expect(urls).toHaveLength(5);
  let bytes = 0;
  for (const url of ['/docs', ...urls]) {
    const { status, headers, bytes: body } = await get(url, { 'accept-encoding': 'gzip' });
    expect([url, status, headers['content-encoding']]).toEqual([url, 200, 'gzip']);
    const policy = String(headers['content-security-policy']);
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/);
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(policy).toContain("frame-ancestors 'none'");
    bytes += body.length;
  }
  expect(bytes).toBeLessThan(550_000);
  const plain = await get('/docs/swagger-ui.css');
  expect([plain.headers['content-encoding'], plain.text.includes('.swagger-ui')]).toEqual([undefined, true]);
  expect((await get('/docs/index.html')).status).toBe(404);
});

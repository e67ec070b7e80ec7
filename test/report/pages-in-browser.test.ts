// The pages that commands write, in Chromium: report of a run, explanation, audit page, outcomes. Accessible in light, dark and on a phone.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeAll, expect, onTestFinished } from 'vitest';
import { openPage } from '../support/browser.ts';
import { sluiceHere } from '../support/cli.ts';
import { fileFolder } from '../support/file-folder.ts';
import { axeViolations, browserOfFile, inBrowser, LOOKS, pageOverflow } from '../support/page-checks.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';

/** Screenshots for people. */
const PICTURES = path.resolve('coverage/pages');

let folder: string;
beforeAll(() => {
  folder = fileFolder();
});
const browser = browserOfFile(PICTURES);

const at = (name: string): string => path.join(folder, name);

async function run(...args: string[]): Promise<void> {
  const { code, stderr } = await sluiceHere(args);
  // 3: rows were rejected; 4: the gate stopped the run.
  expect([0, 3, 4], stderr).toContain(code);
}

async function writeReports(): Promise<string[]> {
  await run('generate', '--rows', '6000', '--seed', '3', '--ids', '--faults', '30', '--drift', '-o', at('drifted.csv'));
  await run('generate', '--rows', '3000', '--seed', '4', '--ids', '--oddness', 'none', '-o', at('plain.csv'));
  const score = (input: string, page: string, ...more: string[]) =>
    run('score', at(input), '--model', 'credit-default', '-o', at(`${page}.csv`), '--passthrough', 'application_id', '--report', at(`${page}.html`), '--quiet', ...more); // biome-ignore format: one line
  await score('plain.csv', 'report');
  await score('drifted.csv', 'report-drifted');
  await score('drifted.csv', 'report-stopped', '--max-rejects', '0');
  return ['report', 'report-drifted', 'report-stopped'];
}

async function writeOthers(): Promise<string[]> {
  await run(
    'explain',
    at('plain.csv'),
    '--model',
    'credit-default',
    '--ignore',
    'application_id',
    '--row',
    '3',
    '--html',
    at('explain.html'),
  );
  copyUnlocked(CREDIT_DEFAULT, at('models/credit-default/1'));
  writeFileSync(at('models/credit-default/1/report.md'), '# Report card\n\n- self-test: 200 rows agree\n');
  await run('model', 'show', 'credit-default', '--audit', '--html', at('audit.html'), '--registry', at('models'));
  const [, ...rows] = readFileSync(at('report.csv'), 'utf8').trimEnd().split('\n');
  const labels = rows.map((row, i) => `${row.split(',')[0]},${i % 5 === 0 ? 0 : 1},2026-0${1 + (i % 3)}\n`);
  writeFileSync(at('labels.csv'), `application_id,ok,month\n${labels.join('')}`);
  await run('outcomes', at('report.csv'), '--labels', at('labels.csv'), '--key', 'application_id', '--model', 'credit-default:1', '--month', 'month', '--html', at('outcomes.html')); // biome-ignore format: one line
  return ['explain', 'audit', 'outcomes'];
}

inBrowser('each page is accessible, fits the window and loads nothing', async () => {
  const pages = [...(await writeReports()), ...(await writeOthers())];
  const found: Record<string, unknown> = {};
  for (const [look, options] of LOOKS) {
    const { page, requests, faults, close } = await openPage(browser(), options);
    onTestFinished(close);
    for (const name of pages) {
      const url = pathToFileURL(at(`${name}.html`)).href;
      await page.goto(url);
      await page.screenshot({ path: path.join(PICTURES, `${name}-${look}.png`), fullPage: true });
      const own = requests.splice(0).filter((address) => address !== url);
      found[`${name}, ${look}`] = [...(await axeViolations(page)), await pageOverflow(page), ...own, ...faults.splice(0)]; // biome-ignore format: one line
    }
  }
  const expected = LOOKS.flatMap(([look]) => pages.map((name) => [`${name}, ${look}`, [0]]));
  expect(found).toEqual(Object.fromEntries(expected));
});

// Every HTML page that Sluice writes allows its own style and nothing else.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { waterfallPage } from '../../src/doors/commands/waterfall-page.ts';
import { htmlPage } from '../../src/report/html-page.ts';
import type { ExplainedRow } from '../../src/runs/checks/explain-row.ts';

const ROW = {
  row: 1,
  interpretation: {
    ...{ space: 'log_odds', method: 'linear', base: 0.5, reasons: [{ code: '<b>', column: 'a', text: '<script>' }] },
    effects: [{ column: '<img src=x>', value: '"><script>alert(1)</script>', effect: 0.25 }],
  },
} as unknown as ExplainedRow;

const ORIGIN = { model: 'm:<1>', packageSha256: '<b>', modelSha256: '<i>', file: '<script>.csv', at: new Date(0), pointsPerLogOdds: 20 }; // biome-ignore format: one line

test.each([
  ['a report', () => htmlPage('<title>', ['<section>x</section>'])],
  ['an explanation', () => waterfallPage(ROW, 5, ORIGIN)],
  ['an explanation that there is none', () => waterfallPage({ row: 1 } as unknown as ExplainedRow, 5, ORIGIN)],
])('%s', (_, make) => {
  const page = make();
  const [, policy] = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/.exec(page)!;
  const styles = [...page.matchAll(/<style>([\s\S]*?)<\/style>/g)].map(([, style]) => style!);
  const hashes = styles.map((style) => `'sha256-${createHash('sha256').update(style).digest('base64')}'`);
  expect(policy).toBe(`default-src 'none'; style-src ${hashes.join(' ')}; base-uri 'none'; form-action 'none'`);
  expect(styles).toHaveLength(1);
  // Nothing that this policy would keep from working, and no text of an input as markup.
  expect(page).not.toMatch(/\sstyle=|\son\w+=|<script>|<img|javascript:|<b>[^A-Za-z&]|<i>/i);
  // It holds for what comes after it only.
  expect(page.indexOf('Content-Security-Policy')).toBeLessThan(page.indexOf('<title>'));
});

test('no other file makes HTML of its own', () => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  const made = files.filter((file) => /<!doctype html>/i.test(readFileSync(path.join('src', file), 'utf8'))).sort();
  expect(made).toEqual(['report/html-page.ts']);
});

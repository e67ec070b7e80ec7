// What every page is checked for in Chromium: accessibility with axe-core, and its width, in light, dark and on a phone.
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';

const AXE = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');

export const LOOKS = [
  ['light', { colorScheme: 'light', viewport: { width: 1280, height: 900 } }],
  ['dark', { colorScheme: 'dark', viewport: { width: 1280, height: 900 } }],
  ['phone', { colorScheme: 'light', viewport: { width: 390, height: 844 } }],
  ['phone-dark', { colorScheme: 'dark', viewport: { width: 390, height: 844 } }],
] as const;

/** Violations of axe-core as texts. */
export async function axeViolations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const nodes = 'v.nodes.map((n) => n.html.slice(0, 150)).join(" | ")';
  return page.evaluate(`axe.run().then(({ violations }) => violations.map((v) => v.id + ': ' + ${nodes}))`);
}

/** How much wider than the window the page is, so that a phone scrolls sideways. */
export const pageOverflow = (page: Page): Promise<number> =>
  page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');

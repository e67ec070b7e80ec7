// Checks of every page in Chromium: accessibility with axe-core and the width, light on a screen and dark on a phone.
import { mkdirSync, readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { chromiumProgram, launchChromium } from './browser.ts';
import { testNeeding } from './tools.ts';

const AXE = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');

export const LOOKS = [
  ['light', { colorScheme: 'light', viewport: { width: 1280, height: 900 } }],
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

/** Starts Chromium, if it is there, for the tests of a file. `pictures`: the folder of their screenshots. */
export function browserOfFile(pictures: string): () => Browser {
  let browser: Browser | null = null;
  beforeAll(async () => {
    mkdirSync(pictures, { recursive: true });
    if (chromiumProgram() !== null) browser = await launchChromium();
  });
  afterAll(() => browser?.close());
  return () => browser!;
}

/** A test that is skipped without Chromium. */
export const inBrowser = (name: string, run: () => Promise<void>): void => testNeeding(['Chromium'], name, run);

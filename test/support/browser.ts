// Chromium for tests of the console: finds it, opens pages, and records what a page asks for.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { PATIENCE_MS } from './patience.ts';

const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];

/** The program of $SLUICE_CHROMIUM, or on the path; null: none. */
export function chromiumProgram(): string | null {
  const { SLUICE_CHROMIUM: own, PATH = '' } = process.env;
  if (own) return existsSync(own) ? own : null;
  const places = PATH.split(path.delimiter).flatMap((folder) => NAMES.map((name) => path.join(folder, name)));
  return places.find((place) => existsSync(place)) ?? null;
}

/** Root cannot use the sandbox of Chromium. */
export async function launchChromium(): Promise<Browser> {
  // Only tests with a browser load the library.
  const { chromium } = await import('playwright-core');
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath: chromiumProgram()!, args, timeout: PATIENCE_MS });
}

export interface WatchedPage {
  page: Page;
  /** Addresses that the page asked for, at any origin. */
  requests: string[];
  /** Errors of scripts, violations of the policy, dialogs. */
  faults: string[];
  close(): Promise<void>;
}

export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<WatchedPage> {
  // axe measures contrast; in the middle of a transition of colors it is another.
  const context = await browser.newContext({ ignoreHTTPSErrors: true, reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  context.setDefaultTimeout(PATIENCE_MS);
  const requests: string[] = [];
  const faults: string[] = [];
  // Further pages of the context are watched, too.
  context.on('request', (request) => requests.push(request.url()));
  context.on('weberror', (event) => faults.push(event.error().message));
  context.on('console', (message) => {
    // The browser reports each answer of 400 and more; tests ask for these.
    if (message.type() === 'error' && !/^Failed to load resource/.test(message.text())) faults.push(message.text());
  });
  context.on('dialog', async (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  return { page, requests, faults, close: () => context.close() };
}

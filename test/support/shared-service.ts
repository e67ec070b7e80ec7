// One service for all tests of a file that need the same settings: starting one costs a second of CPU time.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';
import { type Service, startService } from './service.ts';

const started = new Map<string, Promise<Service>>();

afterAll(async () => {
  for (const service of started.values()) {
    const { running, folder } = await service;
    await running.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Its counters and lists hold what earlier tests of the file did; it is stopped after the last test of the file. */
export function sharedService(settings: string[] = []): Promise<Service> {
  const key = JSON.stringify(settings);
  const folder = () => mkdtempSync(path.join(tmpdir(), 'sluice-shared-'));
  const service = started.get(key) ?? startService(settings, folder(), { keep: true });
  started.set(key, service);
  return service;
}

// One service for all tests of a file that need the same settings: starting one costs a second of CPU time.
import { afterAll } from 'vitest';
import { fileFolder } from './file-folder.ts';
import { type Service, startService } from './service.ts';

const started = new Map<string, Promise<Service>>();

afterAll(async () => {
  for (const service of started.values()) await (await service).running.stop();
});

/** Its counters and lists hold what earlier tests of the file did; it is stopped after the last test of the file. */
export function sharedService(settings: string[] = []): Promise<Service> {
  const key = JSON.stringify(settings);
  const service = started.get(key) ?? startService(settings, fileFolder(), { keep: true });
  started.set(key, service);
  return service;
}

// One service for all tests of a file that need the same settings: starting one costs a second of CPU time.
import { atFileEnd } from './file-end.ts';
import { fileFolder } from './file-folder.ts';
import { type Service, startService } from './service.ts';

const started = new Map<string, Promise<Service>>();

/** Its counters and lists hold what earlier tests of the file did; it is stopped after the last test of the file. */
export function sharedService(settings: string[] = []): Promise<Service> {
  const key = JSON.stringify(settings);
  const running = started.get(key);
  if (running) return running;
  const service = startService(settings, fileFolder(), { keep: true });
  started.set(key, service);
  atFileEnd(async () => {
    started.delete(key);
    await (await service).running.stop();
  });
  return service;
}

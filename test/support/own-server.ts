// A server with a folder of its own for jobs, which a test may kill and start again at the same port.
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { createKey } from '../../src/doors/commands/keys.ts';
import { scratch } from './cli.ts';
import { fileFolder } from './file-folder.ts';
import { freePort } from './ports.ts';
import { Replica } from './replicas.ts';

export interface OwnServer {
  server: Replica;
  /** Of two keys that may do the same. */
  token: string;
  other: string;
  jobs: string;
}

/** It speaks plain HTTP, as behind a proxy; it ends with the test, or its caller closes it (`keep`). */
export async function startOwnServer(settings: string[] = [], { keep = false } = {}): Promise<OwnServer> {
  const folder = keep ? fileFolder() : scratch();
  const keys = path.join(folder, 'keys.yaml');
  const options = { file: keys, scopes: 'predict,interpret,jobs,metrics' };
  const token = await createKey('night', options);
  const other = await createKey('day', options);
  const jobs = path.join(folder, 'jobs');
  const own = [
    'listen.host=127.0.0.1',
    'behind_tls_proxy=["127.0.0.0/8"]',
    `keys_file=${keys}`,
    'workers=1',
    `jobs.folder=${jobs}`,
  ];
  const args = ['--registry', path.resolve('src/bundled'), '--set', ...own, ...settings];
  const server = new Replica(await freePort(), args, {});
  if (!keep) onTestFinished(() => server.close());
  await server.start();
  return { server, token, other, jobs };
}

// Opens the storage of jobs: either a folder of this server, or a database and object storage that several servers
// share.
import path from 'node:path';
import type { ServerConfig } from '../../../config/server-config.ts';
import { lintAddress } from '../../../connectors/postgres/postgres-lint.ts';
import { SluiceError } from '../../../core/errors.ts';
import { takeFileLock } from '../../../core/file-lock.ts';
import { assertUsable, restrictFolder } from '../../../core/file-system.ts';
import { faultFields, type Log, named, saysOf, words } from '../../../core/log.ts';
import type { ServiceContext } from '../wire/scoring-request.ts';
import { FolderFiles } from './folder-files.ts';
import { JobManager, type JobPlace } from './job-manager.ts';
import type { UploadPipeline } from './score-job.ts';
import { SqliteJobs } from './sqlite-jobs.ts';

type SharedJobs = NonNullable<ServerConfig['jobs']['shared']>;

/**
 * @throws SluiceError folder_unusable | folder_in_use
 * @throws SluiceError with shared jobs: database_refused | usage
 */
export async function openJobs(services: ServiceContext, pipelines: readonly UploadPipeline[]): Promise<JobManager> {
  const place = services.config.jobs.shared
    ? await sharedPlace(services.config.jobs.shared, services.log)
    : await ownPlace(services);
  try {
    const manager = new JobManager(services, pipelines, place);
    await manager.start();
    return manager;
  } catch (error) {
    await place.close();
    throw error;
  }
}

const LOCK = 'jobs.sqlite.lock';

/**
 * Locks the folder for this process: two servers would run each job twice and overwrite each other's results. Waits up
 * to `waitMs` for a stopping server. Returns a function that unlocks the folder.
 * @throws SluiceError folder_in_use | folder_unusable
 */
export async function lockFolder(folder: string, waitMs: number, onWait: () => void = () => {}): Promise<() => void> {
  let unlock: (() => void) | null;
  try {
    unlock = await takeFileLock(path.join(folder, LOCK), waitMs, onWait, true);
  } catch (cause) {
    throw new SluiceError('folder_unusable', `jobs.folder: ${folder} cannot be locked`, { cause });
  }
  if (unlock) return unlock;
  throw new SluiceError('folder_in_use', `jobs.folder: another server uses ${folder}`);
}

async function ownPlace({ config, log }: ServiceContext): Promise<JobPlace> {
  const folder = path.resolve(config.jobs.folder);
  await assertUsable('jobs.folder', folder);
  await restrictFolder(folder);
  const unlock = await lockFolder(folder, config.jobs.lock_wait_ms, () => {
    log('warn', 'folder_in_use', words`another server uses ${named(folder)}; waiting for it to stop`);
  });
  try {
    const store = new SqliteJobs(folder);
    const files = new FolderFiles(folder, config.timeouts.body_idle_ms * 2);
    return {
      store,
      files,
      uploads: store.uploads,
      cutOff: store.requeueRunning(),
      close: async () => {
        await store.close();
        unlock();
      },
    };
  } catch (error) {
    unlock();
    throw error;
  }
}

/**
 * Checks that the shared table and the object storage are reachable, and returns a description of them.
 * @throws SluiceError
 */
export async function reachShared(shared: SharedJobs): Promise<string> {
  const { store, files, close } = await sharedPlace(shared, () => {});
  try {
    const { queued, running } = await store.counts();
    await files.reach();
    return `${shared.table} and ${shared.files} are reachable; ${queued} jobs are queued, ${running} are running`;
  } catch (error) {
    // Operators get the original error, which has more detail than the error for clients.
    throw (error as SluiceError).cause ?? error;
  } finally {
    await close();
  }
}

async function sharedPlace({ database, table, files, lease_ms }: SharedJobs, log: Log): Promise<JobPlace> {
  lintAddress(database, 'jobs.shared.database', (_, message) => {
    throw new SluiceError('usage', `jobs.shared.database: ${message}`);
  });
  const [{ PostgresJobs }, { ObjectFiles }] = await Promise.all([
    import('./postgres-jobs.ts'),
    import('./object-files.ts'),
  ]);
  const objects = new ObjectFiles(files);
  const onReach = (reached: boolean, error: unknown): void => {
    if (reached) log('info', 'job_table_up', words`the job table is reachable again`);
    else log('error', 'job_table_down', words`the job table is unreachable: ${saysOf(error)}`, faultFields(error));
  };
  const store = new PostgresJobs({ database, table, leaseMs: lease_ms, onReach });
  await store.prepare();
  return { store, files: objects, uploads: store.uploads, cutOff: [], close: () => store.close() };
}

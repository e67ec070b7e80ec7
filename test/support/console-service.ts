// A service over TLS with all that the console shows: versions and moved aliases, recorded runs, a topic, three keys, hostile names.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { loadConfig } from '../../src/config/load-config.ts';
import { SCOPES } from '../../src/config/scopes.ts';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { createKey } from '../../src/doors/commands/keys.ts';
import { type RunningService, serve } from '../../src/doors/http/service.ts';
import { devCertificate } from '../../src/doors/http/wire/listener.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { serveMetrics } from '../../src/monitor/metrics-server.ts';
import { reportPipeline } from '../../src/monitor/pipeline-report.ts';
import { newRecordId, type RunRecord, writeRunRecord } from '../../src/runs/run-records.ts';
import { sluiceHere } from './cli.ts';
import { copyUnlocked } from './registries/packages.ts';
import { CREDIT_DEFAULT } from './score.ts';

/** Sets a property of the window if it is ever parsed as HTML. */
export const HOSTILE = '<img src=x onerror=window.hacked=1>';

export interface ConsoleService {
  url: string;
  folder: string;
  running: RunningService;
  tokens: Record<'alpha' | 'beta' | 'auditor', string>;
  /** A portfolio with ids; its output of last night was recorded. */
  portfolio: string;
  output: string;
  close(): Promise<void>;
}

const REPORT_CARD = `# Report card of model-alpha:1

| | |
| --- | --- |
| model file | 406,881 bytes, sha256 \`f05a70\` |

## Against the training library

- self-test: 200 rows agree with the training library
- training data: AUC 0.81, no column contradicts the outcome
`;

/** `change`: text of model.yaml → text. */
function addModel(folder: string, id: string, version: string, change = (yaml: string) => yaml): string {
  const target = path.join(folder, 'models', id, version);
  copyUnlocked(CREDIT_DEFAULT, target);
  const file = path.join(target, 'model.yaml');
  const yaml = readFileSync(file, 'utf8').replace('id: credit-default', `id: ${id}`);
  writeFileSync(file, change(yaml.replace(/^version: 1$/m, `version: ${version}`)));
  return target;
}

/** The column `amount` and its reason have the hostile text as their names. */
function addHostileModel(folder: string): void {
  const target = addModel(folder, 'model-odd', '1', (yaml) =>
    yaml
      .replaceAll(/(name: |^ +(?:- )?)amount(?=[:,]|$)/gm, `$1${JSON.stringify(HOSTILE)}`)
      .replace('text: The amount requested is high', `text: ${JSON.stringify(HOSTILE)}`),
  );
  writeFileSync(path.join(target, 'report.md'), HOSTILE);
  for (const name of ['selftest.csv', 'background.csv']) {
    const file = path.join(target, name);
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^amount/, HOSTILE));
  }
}

/** The metrics port of a process that reads a topic and lags behind. */
async function lateMember(name: string, model: string): Promise<{ address: string; close: () => Promise<void> }> {
  const metrics = new Metrics('topic_run');
  metrics.lagSeconds.set({ pipeline: name, topic: 'loans', partition: '0' }, 754);
  metrics.deadLetters.inc({ pipeline: name, code: 'bad_number' }, 12);
  const counts = { rows: 48_210, scored: 48_198, rejected: 12, rejectedByCode: { bad_number: 12 } };
  const started = new Date(Date.now() - 86_400_000).toISOString();
  const known = { name, model, source: 'topic loans', sink: 'topic predictions', started, lag: 3120, ...counts };
  const pipelines = () => reportPipeline(metrics, known, true);
  const server = await serveMetrics(metrics, { host: '127.0.0.1', port: 0, ready: () => true, pipelines });
  return { address: `http://127.0.0.1:${server.port}`, close: () => server.close() };
}

async function recordRuns(folder: string, portfolio: string, output: string): Promise<void> {
  const records = path.join(folder, 'runs');
  const score = (model: string, to: string, ...more: string[]) =>
    sluiceHere([
      ...['score', portfolio, '--model', model, '--registry', path.join(folder, 'models'), '-o', to, '--quiet'],
      ...['--passthrough', 'application_id', '--run-records', records, ...more],
    ]);
  await score('model-alpha@champion', output, '--report', path.join(folder, 'report.html'));
  await score('model-alpha', path.join(folder, 'stopped.csv'), '--max-rejects', '0');
  await score('model-beta', path.join(folder, 'beta.csv'));
  const [began, id] = [new Date().toISOString(), newRecordId(Date.now())];
  const odd: RunRecord = {
    ...{ id, name: HOSTILE, host: HOSTILE, state: 'failed', began, ended: began, exitCode: 1 },
    error: { code: 'input_not_found', message: HOSTILE },
    model: { reference: HOSTILE, id: HOSTILE, version: HOSTILE, packageSha256: HOSTILE },
    ...{ input: HOSTILE, output: HOSTILE, rows: 0, scored: 0, rejected: 0, rejectedByCode: { [HOSTILE]: 1 } },
    ...{ gate: null, drift: null, report: HOSTILE, rejectLists: [HOSTILE] },
    outputs: [{ path: HOSTILE, manifestSha256: null }],
  };
  await writeRunRecord(records, odd);
}

async function moveAliases(folder: string): Promise<FolderRegistry> {
  const registry = new FolderRegistry([path.join(folder, 'models')]);
  await registry.moveAlias('model-alpha', 'champion', '1', { who: 'anna.berg', why: 'first release' });
  await registry.moveAlias('model-alpha', 'challenger', '2', { who: 'tom.hale', why: 'trial on new income data' });
  await registry.moveAlias('model-odd', 'champion', '1', { who: HOSTILE, why: HOSTILE });
  return registry;
}

/** `folder`: an empty folder that the caller removes. */
export async function startConsoleService(folder: string, settings: string[] = []): Promise<ConsoleService> {
  const at = (name: string) => path.join(folder, name);
  const first = addModel(folder, 'model-alpha', '1');
  writeFileSync(path.join(first, 'report.md'), REPORT_CARD);
  addModel(folder, 'model-alpha', '2');
  addModel(folder, 'model-beta', '1');
  // Written by hand, so the history has no move.
  writeFileSync(at('models/model-beta/aliases.yaml'), 'champion: 1\n');
  addHostileModel(folder);
  const registry = await moveAliases(folder);
  const [portfolio, output] = [at('portfolio.csv'), at('scored.csv')];
  await sluiceHere(['generate', '--rows', '5000', '--faults', '5', '--ids', '--drift', '-o', portfolio]);
  await recordRuns(folder, portfolio, output);
  const late = await lateMember('loan-applications', 'model-alpha@champion');
  const odd = await lateMember(HOSTILE, 'model-odd');
  const { cert, key } = await devCertificate();
  writeFileSync(at('c.pem'), cert);
  writeFileSync(at('k.pem'), key);
  const keysFile = at('keys.yaml');
  const scopes = SCOPES.join();
  const tokens = {
    alpha: await createKey('alpha', { file: keysFile, scopes, models: 'model-alpha' }),
    beta: await createKey('beta', { file: keysFile, scopes, models: 'model-beta' }),
    auditor: await createKey('auditor', { file: keysFile, scopes }),
  };
  const config = await loadConfig(ServerConfigSchema, {
    settings: [
      ...['listen.port=0', 'listen.host=127.0.0.1', 'workers=1', `keys_file=${keysFile}`, `jobs.folder=${at('jobs')}`],
      ...[`spill.folder=${folder}`, `run_records=${at('runs')}`, `tls.certificate=${at('c.pem')}`],
      `tls.key=${at('k.pem')}`,
      `pipeline_members=${JSON.stringify([late.address, odd.address])}`,
      ...settings,
    ],
  });
  const running = await serve({ config, registry });
  const close = async (): Promise<void> => {
    await running.stop();
    await late.close();
    await odd.close();
  };
  const url = `https://localhost:${new URL(running.url).port}`;
  return { url, folder, running, tokens, portfolio, output, close };
}

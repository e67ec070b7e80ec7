// k8s/ as kustomize renders it: schemas of Kubernetes and of the operators, Pod Security, and configurations that Sluice takes.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { ScaledObject } from '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject';
import { PodMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor';
import { PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule';
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor';
import { expect } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { MAIN, scratch, sluiceHere } from '../support/cli.ts';
import { APPLIED, rendered, renderedText } from '../support/kustomize.ts';
import { type Document, EXTERNAL, policyFindings, templateOf } from '../support/pod-policy.ts';
import { pythonWith } from '../support/python-environment.ts';
import { testNeeding } from '../support/tools.ts';

const run = promisify(execFile);
const OPERATORS = { ScaledObject, PodMonitor, PrometheusRule, ServiceMonitor };

/** k8s/shards is applied beside an overlay, which has the account. */
const brought = (folder: string) => (folder === 'k8s/shards' ? [...EXTERNAL, 'ServiceAccount/sluice'] : EXTERNAL);

for (const folder of APPLIED) {
  testNeeding(['kustomize'], `${folder} keeps Pod Security "restricted" and the rules of the house`, () => {
    expect(policyFindings(rendered(folder), brought(folder))).toEqual([]);
  });
}

const pod = (documents: readonly Document[], kind: string) => templateOf(documents.find((d) => d.kind === kind)).spec;

const SPOILED: readonly [says: string, spoil: (documents: Document[]) => void][] = [
  ['CronJob/sluice-nightly: Sluice is PID 1, without a shell', (d) => Object.assign(pod(d, 'CronJob').containers[0], { command: ['sh', '-c', 'x'] })],
  ['CronJob/sluice-nightly: allowPrivilegeEscalation', (d) => delete pod(d, 'CronJob').containers[0].securityContext.allowPrivilegeEscalation],
  ['CronJob/sluice-nightly: capabilities', (d) => delete pod(d, 'CronJob').containers[0].securityContext.capabilities],
  ['CronJob/sluice-nightly: a time zone', (d) => delete d.find((x) => x.kind === 'CronJob').spec.timeZone],
  ['CronJob/sluice-nightly: an end', (d) => delete d.find((x) => x.kind === 'CronJob').spec.jobTemplate.spec.activeDeadlineSeconds],
  ['Deployment/sluice-loan-applications: runAsNonRoot', (d) => delete pod(d, 'Deployment').securityContext.runAsNonRoot],
  ['Deployment/sluice-loan-applications: seccompProfile', (d) => delete pod(d, 'Deployment').securityContext.seccompProfile],
  ['Deployment/sluice-loan-applications: volume types', (d) => pod(d, 'Deployment').volumes.push({ name: 'h', hostPath: { path: '/' } })],
  ['Deployment/sluice-loan-applications: secrets by reference', (d) => pod(d, 'Deployment').containers[0].env.push({ name: 'KAFKA_PASSWORD', value: 'x' })],
  ['Deployment/sluice-loan-applications: secrets of files for owner and group only', (d) => delete pod(d, 'Deployment').volumes.find((v: Document) => v.secret).secret.defaultMode],
  ['Deployment/sluice-loan-applications: limits and requests', (d) => delete pod(d, 'Deployment').containers[0].resources.limits],
  ['Deployment/sluice-loan-applications: probes', (d) => delete pod(d, 'Deployment').containers[0].livenessProbe],
  ['Deployment/sluice-loan-applications: the one image', (d) => Object.assign(pod(d, 'Deployment').containers[0], { image: 'sluice:latest' })],
  ['Service/sluice-serve: selects no pod', (d) => Object.assign(d.find((x) => x.kind === 'Service').spec, { selector: { app: 'x' } })],
  ['ServiceMonitor/sluice-serve: selects no service', (d) => Object.assign(d.find((x) => x.kind === 'ServiceMonitor').spec.selector, { matchLabels: { app: 'x' } })],
  ['Namespace/sluice: Pod Security is not enforced', (d) => delete d.find((x) => x.kind === 'Namespace').metadata.labels],
  ['CronJob/sluice-nightly: ConfigMap/sluice-nightly is not there', (d) => d.splice(d.findIndex((x) => x.kind === 'ConfigMap' && x.metadata.name === 'sluice-nightly'), 1)],
]; // biome-ignore format: a table

testNeeding(['kustomize'], 'what breaks one of the rules is found, and by its name', () => {
  const whole = rendered('k8s/overlays/prod');
  for (const [says, spoil] of SPOILED) {
    const documents = structuredClone(whole);
    const deployment = documents.findIndex((d) => d.metadata.name === 'sluice-loan-applications' && d.kind === 'Deployment');
    documents.unshift(...documents.splice(deployment, 1));
    spoil(documents);
    expect(policyFindings(documents)).toEqual([says]);
  }
}); // biome-ignore format: one story

testNeeding(
  ['kustomize'],
  'one digest in an overlay pins the image of every pod, and the Dockerfile takes one for its base',
  () => {
    const folder = scratch();
    // Of any text: what is pinned is the place's, and this test invents none for it.
    const digest = `sha256:${createHash('sha256').update('an image').digest('hex')}`;
    for (const overlay of ['k8s/overlays/prod', 'k8s/overlays/dev']) {
      const kustomization = {
        apiVersion: 'kustomize.config.k8s.io/v1beta1',
        kind: 'Kustomization',
        resources: [path.relative(folder, path.resolve(overlay))],
        images: [{ name: 'sluice', newName: 'registry.bank.example/sluice', digest }],
      };
      writeFileSync(path.join(folder, 'kustomization.yaml'), JSON.stringify(kustomization));
      const images = renderedText(folder).matchAll(/^ *(?:- )?image: (.*)$/gm);
      expect(new Set([...images].map(([, image]) => image!.replace(/:0\.2\.0(?=@)/, '')))).toEqual(
        new Set([`registry.bank.example/sluice@${digest}`]),
      );
    }
    const dockerfile = readFileSync('Dockerfile', 'utf8');
    expect(dockerfile.match(/^FROM .*$/gm)).toEqual(['FROM $NODE_IMAGE AS build', 'FROM $NODE_IMAGE']);
    expect(dockerfile).toMatch(/^ARG NODE_IMAGE=node:24-bookworm-slim$/m);
  },
);

testNeeding(['kustomize'], 'every document is one that Kubernetes or its operator knows', async (context) => {
  const found = await pythonWith('test/kubernetes/requirements.txt');
  if ('missing' in found) return context.skip(`needs ${found.missing}`);
  const validate = path.join(path.dirname(found.python), 'kubernetes-validate');
  const texts = APPLIED.map((folder) => renderedText(folder));
  const file = path.join(scratch(), 'rendered.yaml');
  writeFileSync(file, texts.join('---\n'));
  const { stdout, stderr } = await run(validate, ['--strict', file], { maxBuffer: 1 << 26 });
  const lines = `${stdout}${stderr}`.trim().split('\n');
  const documents = texts.flatMap((text) => parseAllDocuments(text).map((d) => d.toJS() as Document));
  const ofOperators = documents.filter((d) => d.kind in OPERATORS);
  expect(lines.filter((l) => l.includes(' passed for resource '))).toHaveLength(documents.length - ofOperators.length);
  for (const document of ofOperators) {
    const Kind = OPERATORS[document.kind as keyof typeof OPERATORS];
    new Kind(document).validate();
    const spoiled = {
      ...document,
      spec: { ...document.spec, triggers: 1, podMetricsEndpoints: 1, endpoints: 1, groups: 1 },
    };
    expect(() => new Kind(spoiled).validate()).toThrow();
  }
  const wrong = path.join(scratch(), 'wrong.yaml');
  writeFileSync(wrong, renderedText('k8s/shards').replace('backoffLimitPerIndex', 'backoffLimitsPerIndex'));
  await expect(run(validate, ['--strict', wrong])).rejects.toThrow();
});

/** Every ConfigMap under k8s/, without kustomize. */
const maps = (readdirSync('k8s', { recursive: true }) as string[])
  .filter((f) => f.endsWith('config.yaml'))
  .flatMap((f) => parseAllDocuments(readFileSync(path.join('k8s', f), 'utf8')).map((d) => d.toJS()))
  .flatMap((d) => Object.entries(d.data as Record<string, string>).map(([name, text]) => ({ name, text })));

testNeeding([], 'the jobs of replicas are shared by what the component says', async () => {
  const [said] = parseAllDocuments(readFileSync('k8s/components/replicas/serve.yaml', 'utf8')).map((d) => d.toJS());
  const [{ env }] = templateOf(said).spec.containers as [{ env: { name: string; value?: string }[] }];
  const file = path.join(scratch(), 'sluice.yaml');
  writeFileSync(file, maps.find((m) => m.name === 'sluice.yaml')!.text);
  const given = Object.fromEntries(env.map(({ name, value }) => [name, value ?? 'postgresql://db/sluice']));
  const { jobs } = await loadConfig(ServerConfigSchema, { file, env: given });
  expect(jobs.shared).toMatchObject({ database: { url_env: 'SLUICE_DATABASE' }, files: 's3://sluice-jobs/production' });
  expect(Object.keys(given)).toContain(jobs.shared!.database.url_env);
});

testNeeding([], 'sluice lint passes on every pipeline of k8s/', async () => {
  const pipelines = maps.filter((m) => m.name !== 'sluice.yaml');
  expect(pipelines.map((m) => m.name).sort()).toEqual([
    'loan-applications.yaml',
    'loan-applications.yaml',
    'nightly.yaml',
  ]);
  for (const { name, text } of pipelines) {
    const file = path.join(scratch(), name);
    writeFileSync(file, text.replace('credit-default@champion', 'credit-default'));
    const env = { SLUICE_KAFKA_BROKERS: 'kafka:9092' };
    const { code, stderr } = await sluiceHere(['lint', file, '--registry', 'src/bundled'], { env });
    expect(code, stderr).toBe(0);
  }
});

testNeeding([], 'the nightly run as it is started there: rejected rows are listed, and are no failure', async () => {
  const folder = scratch();
  for (const name of ['incoming', 'scored']) mkdirSync(path.join(folder, name));
  const text = Buffer.concat([...generatePortfolio({ rows: 20, seed: 3, delimiter: ',', oddness: 'none' })]).toString();
  const [header, ...lines] = text.trimEnd().split('\n');
  const rows = [...lines, lines[0]!.replaceAll(/[^,]+/g, 'x')].map((line, i) => `A${i},${line}`);
  const csv = [`application_id,${header}`, ...rows, ''].join('\n');
  writeFileSync(path.join(folder, 'incoming', 'a.csv.gz'), gzipSync(csv));
  const job = parseAllDocuments(readFileSync('k8s/components/nightly/nightly.yaml', 'utf8'))[0]!.toJS();
  const [container] = templateOf(job).spec.containers;
  const pipeline = path.join(folder, 'nightly.yaml');
  const settings = maps.find((m) => m.name === 'nightly.yaml')!.text;
  writeFileSync(pipeline, settings.replaceAll('/portfolio/', `${folder}/`).replace('@champion', ''));
  const args = (container.args as string[]).map(
    (a) =>
      ({
        '/etc/sluice/nightly.yaml': pipeline,
        '--registry=s3://sluice-models/production': '--registry=src/bundled',
        '--metrics-port=9464': '--metrics-port=0',
        '--metrics-host=0.0.0.0': '--metrics-host=127.0.0.1',
      })[a] ?? a,
  );
  const said = Object.fromEntries(container.env.map((e: { name: string; value: string }) => [e.name, e.value]));
  // Processes: exit codes are settings that are read when the program is loaded.
  const env = { ...process.env, ...said, SLUICE_REGISTRY_OPTIONS__CACHE_FOLDER: path.join(folder, 'cache') };
  await run(process.execPath, [MAIN, ...args], { env });
  expect(readdirSync(path.join(folder, 'scored'))).toContain('a.rejected.csv');
  expect(readdirSync(path.join(folder, 'scored'))).toContain('a.csv.gz');
  await expect(
    run(process.execPath, [MAIN, ...args, '--restart'], { env: { ...env, SLUICE_EXIT_REJECTED: '' } }),
  ).rejects.toMatchObject({ code: 3 });
});

// What every rendered document of k8s/ keeps: Pod Security `restricted` as a table, and rules of our own.

// biome-ignore lint/suspicious/noExplicitAny: documents of many kinds
export type Document = any;

/** What the place brings: named in docs/kubernetes.md. */
export const EXTERNAL: readonly string[] = [
  'Secret/sluice-tls',
  'Secret/sluice-keys',
  'Secret/sluice-registry',
  'Secret/sluice-database',
  'Secret/sluice-kafka',
  'Secret/sluice-metrics-key',
  'Secret/sluice-ingress-tls',
  'ConfigMap/kafka-ca',
  'PersistentVolumeClaim/portfolio',
];

/** Volumes that `restricted` allows. */
const VOLUMES = [
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
];

type Rule = [name: string, holds: (pod: Document, document: Document) => boolean];

const all = (pod: Document, holds: (container: Document) => boolean) =>
  [...(pod.initContainers ?? []), ...pod.containers].every(holds);

/** Pod Security Standards, profile restricted. */
const RESTRICTED: readonly Rule[] = [
  ['no host namespaces', (pod) => !(pod.hostNetwork || pod.hostPID || pod.hostIPC)],
  ['volume types', (pod) => (pod.volumes ?? []).every((v: Document) => VOLUMES.some((kind) => kind in v))],
  ['runAsNonRoot', (pod) => pod.securityContext?.runAsNonRoot === true && pod.securityContext.runAsUser > 0],
  ['seccompProfile', (pod) => pod.securityContext?.seccompProfile?.type === 'RuntimeDefault'],
  ['no privileges', (pod) => all(pod, (c) => c.securityContext?.privileged !== true)],
  ['allowPrivilegeEscalation', (pod) => all(pod, (c) => c.securityContext?.allowPrivilegeEscalation === false)],
  ['capabilities', (pod) => all(pod, (c) => c.securityContext?.capabilities?.drop?.includes('ALL') && !c.securityContext.capabilities.add)],
  ['no host ports', (pod) => all(pod, (c) => (c.ports ?? []).every((p: Document) => p.hostPort === undefined))],
]; // biome-ignore format: a table

const OURS: readonly Rule[] = [
  ['readOnlyRootFilesystem', (pod) => all(pod, (c) => c.securityContext?.readOnlyRootFilesystem === true)],
  ['no token of the API', (pod) => pod.automountServiceAccountToken === false],
  ['Sluice is PID 1, without a shell', (pod) => all(pod, (c) => c.command === undefined && Array.isArray(c.args))],
  ['limits and requests', (pod) => all(pod, (c) => ['cpu', 'memory'].every((of) => c.resources?.limits?.[of] && c.resources.requests?.[of]))],
  ['the one image', (pod) => all(pod, (c) => c.image === 'sluice:0.3.0')],
  ['time to stop', (pod) => pod.terminationGracePeriodSeconds >= 40],
  ['/tmp can be written, and every emptyDir has a limit', (pod) => all(pod, (c) => c.volumeMounts.some((m: Document) => m.mountPath === '/tmp')) && pod.volumes.every((v: Document) => !v.emptyDir || v.emptyDir.sizeLimit)],
  ['mounts are of volumes', (pod) => all(pod, (c) => c.volumeMounts.every((m: Document) => pod.volumes.some((v: Document) => v.name === m.name)))],
  ['secrets of files for owner and group only', (pod) => pod.volumes.every((v: Document) => !v.secret || (v.secret.defaultMode ?? 0o644) <= 0o440)],
  ['secrets by reference', (pod) => all(pod, (c) => (c.env ?? []).every((e: Document) => !/password|secret|token|access_key/i.test(e.name) || e.value === undefined))],
  ['probes', (pod, { kind }) => kind !== 'Deployment' || all(pod, (c) => c.readinessProbe?.httpGet.path === '/readyz' && c.livenessProbe?.httpGet.path === '/livez')],
  ['spread', (pod, { kind }) => kind !== 'Deployment' || pod.topologySpreadConstraints?.length > 0],
  ['an end', (_, document) => document.kind === 'Deployment' || jobOf(document).activeDeadlineSeconds > 0],
  ['a time zone', (_, { kind, spec }) => kind !== 'CronJob' || typeof spec.timeZone === 'string'],
]; // biome-ignore format: a table

const jobOf = (document: Document) => (document.kind === 'CronJob' ? document.spec.jobTemplate.spec : document.spec);

/** The template of a document's pods; undefined: it makes none. */
export function templateOf(document: Document): Document {
  return ['Deployment', 'CronJob', 'Job'].includes(document.kind) ? jobOf(document).template : undefined;
}

/** Names of what a document needs: `Kind/name`. */
function references(document: Document): string[] {
  const pod = templateOf(document)?.spec;
  const found: string[] = [];
  if (pod) {
    found.push(`ServiceAccount/${pod.serviceAccountName}`);
    for (const volume of pod.volumes) {
      if (volume.configMap) found.push(`ConfigMap/${volume.configMap.name}`);
      if (volume.secret) found.push(`Secret/${volume.secret.secretName}`);
      if (volume.persistentVolumeClaim) found.push(`PersistentVolumeClaim/${volume.persistentVolumeClaim.claimName}`);
    }
    for (const container of pod.containers) {
      for (const from of container.envFrom ?? []) if (from.secretRef) found.push(`Secret/${from.secretRef.name}`);
    }
  }
  const target = document.spec?.scaleTargetRef;
  if (target) found.push(`${target.kind ?? 'Deployment'}/${target.name}`);
  for (const tls of (document.kind === 'Ingress' && document.spec.tls) || []) found.push(`Secret/${tls.secretName}`);
  for (const { http } of (document.kind === 'Ingress' && document.spec.rules) || [])
    for (const route of http.paths) found.push(`Service/${route.backend.service.name}`);
  return found;
}

/** Labels that a document looks pods up by; undefined: it looks up none. */
function selectorOf({ kind, spec }: Document): Record<string, string> | undefined {
  if (kind === 'Service') return spec.selector;
  if (['Deployment', 'PodDisruptionBudget', 'PodMonitor'].includes(kind)) return spec.selector.matchLabels;
  return kind === 'NetworkPolicy' ? spec.podSelector.matchLabels : undefined;
}

const matches = (selector: Record<string, string>, labels: Record<string, string> = {}) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

/**
 * Every rule that a document breaks, as `Kind/name: rule`.
 * @param brought what is there besides, as `Kind/name`
 */
export function policyFindings(documents: readonly Document[], brought: readonly string[] = EXTERNAL): string[] {
  const there = new Set([...brought, ...documents.map((d) => `${d.kind}/${d.metadata.name}`)]);
  const pods = documents.map(templateOf).filter((t) => t !== undefined);
  return documents.flatMap((document) => {
    const found: string[] = [];
    const template = templateOf(document);
    if (template) {
      for (const [name, holds] of [...RESTRICTED, ...OURS]) if (!holds(template.spec, document)) found.push(name);
    }
    for (const name of references(document)) if (!there.has(name)) found.push(`${name} is not there`);
    const selector = selectorOf(document);
    const services = documents.filter((d) => d.kind === 'Service');
    if (document.kind === 'ServiceMonitor') {
      const { matchLabels } = document.spec.selector;
      if (!services.some((s) => matches(matchLabels, s.metadata.labels))) found.push('selects no service');
    }
    if (selector && !pods.some((p) => matches(selector, p.metadata.labels))) found.push('selects no pod');
    if (document.kind === 'Secret') found.push('a secret in the open');
    const level = document.kind === 'Namespace' && document.metadata.labels?.['pod-security.kubernetes.io/enforce'];
    if (level !== false && level !== 'restricted') found.push('Pod Security is not enforced');
    return found.map((what) => `${document.kind}/${document.metadata.name}: ${what}`);
  });
}

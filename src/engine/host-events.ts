// Reports events of models as metrics and log lines. All entry points that serve models use the same reports.
import { faultFields, type Log, named, saysOf, type Word, words } from '../core/log.ts';
import { memoPoolUse } from '../inference/explain/memo-pool.ts';
import { versionOf } from '../model/package/load-package.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { parseReference } from '../model/registry/registry.ts';
import type { Metrics } from '../monitor/metrics.ts';
import type { ModelHost, ModelHostEvents } from './model-host.ts';

/** Reports the loaded models of a host as metrics. */
export function measureHost(metrics: Metrics, host: ModelHost): void {
  metrics.onScrape(() => {
    const { models, workers } = host.loaded;
    metrics.modelsLoaded.set(models);
    metrics.workers.set(workers);
    const { used, limit } = memoPoolUse();
    metrics.explainMemory.set(used);
    metrics.explainMemoryLimit.set(limit);
  });
}

/** Warns that changes to the files of a package cannot be detected. */
export function warnUnlocked(log: Log, { ref, locked }: Pick<ModelPackage, 'ref' | 'locked'>): void {
  if (locked) return;
  const says = words`${named(ref)} has no package.lock, so changes of its files are not detected (use sluice model seal)`;
  log('warn', 'model_unlocked', says, { model: named(ref) });
}

const servedAs = (reference: string, model: ModelPackage) => ({
  reference,
  version: versionOf(model.manifest),
  package_sha256: model.sha256,
});

export function hostEvents(metrics: Metrics, log: Log): Required<ModelHostEvents> {
  return {
    onLoadFailure: (reference, error, serving) => {
      // The process or run ends while a model is loading, for example because its topic is empty.
      if (error.code === 'cancelled') return;
      metrics.loadFailures.inc({ model: parseReference(reference).id, code: error.code });
      const fields = { ...faultFields(error), model: named(parseReference(reference).id) };
      if (!serving) {
        log('error', 'model_load_failed', words`${named(reference)} cannot be loaded: ${saysOf(error)}`, fields);
        return;
      }
      metrics.stale.set({ reference }, 1);
      const version = named(versionOf(serving.manifest));
      const says = words`still serving version ${version} of ${named(reference)}; loading the new one failed: ${saysOf(error)}`;
      log('error', 'model_stale', says, { ...fields, reference: named(reference), version });
    },
    onSwap: (reference, from, to) => {
      metrics.swaps.inc({ model: to.manifest.id });
      metrics.served.remove(servedAs(reference, from));
      const [before, after] = [from, to].map((m) => named(versionOf(m.manifest))) as [Word, Word];
      const says = words`${named(reference)}: version ${before} → ${after}`;
      const fields = { reference: named(reference), from: before, to: after };
      log('info', 'model_swapped', says, { ...fields, package_sha256: named(to.sha256) });
    },
    onCurrent: (reference, model) => {
      metrics.served.set(servedAs(reference, model), 1);
      metrics.unlocked.set({ reference }, model.locked ? 0 : 1);
      metrics.stale.set({ reference }, 0);
      warnUnlocked(log, model);
    },
    onWork: (ms) => metrics.workerBusy.inc(ms / 1000),
    onLoaded: (ms) => metrics.modelLoad.observe(ms / 1000),
    onEvicted: () => metrics.evictions.inc(),
    onWorkerDeath: (model, reason) => {
      metrics.workerDeaths.inc({ model: model.ref });
      const says = words`a worker of ${named(model.ref)} crashed and is replaced: ${reason}`;
      log('error', 'worker_died', says, { model: named(model.ref), reason });
    },
  };
}

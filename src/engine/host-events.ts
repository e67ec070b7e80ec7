// What happens to models, as metrics and as lines of the log: the same wherever they are served.
import { versionOf } from '../model/package/load-package.ts';
import { parseReference } from '../model/registry/registry.ts';
import type { Metrics } from '../monitor/metrics.ts';
import type { ModelHost, ModelHostEvents } from './model-host.ts';

/** Has the metrics ask a host what it has loaded. */
export function measureHost(metrics: Metrics, host: ModelHost): void {
  metrics.onScrape(() => {
    const { models, workers } = host.loaded;
    metrics.modelsLoaded.set(models);
    metrics.workers.set(workers);
  });
}

export function hostEvents(metrics: Metrics, log: (text: string) => void): Required<ModelHostEvents> {
  return {
    onLoadFailure: (reference, error, serving) => {
      metrics.loadFailures.inc({ model: parseReference(reference).id, code: error.code });
      if (!serving) return;
      metrics.stale.set({ reference }, 1);
      log(`${reference} stays at version ${versionOf(serving.manifest)}: ${error.message} [${error.code}]`);
    },
    onSwap: (reference, from, to) => {
      metrics.swaps.inc({ model: to.manifest.id });
      metrics.served.remove({ reference, version: versionOf(from.manifest) });
      log(`${reference}: version ${versionOf(from.manifest)} → ${versionOf(to.manifest)}`);
    },
    onCurrent: (reference, model) => {
      metrics.served.set({ reference, version: versionOf(model.manifest) }, 1);
      metrics.stale.set({ reference }, 0);
    },
    onWork: (ms) => metrics.workerBusy.inc(ms / 1000),
    onLoaded: (ms) => metrics.modelLoad.observe(ms / 1000),
    onEvicted: () => metrics.evictions.inc(),
    onWorkerDeath: (model, reason) => {
      metrics.workerDeaths.inc({ model: model.ref });
      log(`a worker of ${model.ref} died and is replaced: ${reason}`);
    },
  };
}

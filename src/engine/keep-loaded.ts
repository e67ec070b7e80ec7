// The models a process was asked to have: loaded again whenever they are not, so that whoever asks whether it is ready learns the truth.
import { startInterval, stopTimer } from '../core/clock.ts';
import { inBackground } from '../core/in-background.ts';
import type { ModelHost } from './model-host.ts';

export interface KeptModels {
  /** Whether all of them are loaded. */
  readonly ready: boolean;
  stop(): void;
}

const EVERY_MS = 2_000;

/** Asks for what is not loaded, now and every two seconds. Why a model cannot be had is told by the events of the host. */
export function keepLoaded(host: ModelHost, references: readonly string[], everyMs = EVERY_MS): KeptModels {
  let stopped = false;
  const loading = new Set<string>();
  const load = async (reference: string): Promise<void> => {
    if (stopped || loading.has(reference) || host.serves(reference)) return;
    loading.add(reference);
    try {
      (await host.use(reference)).release();
    } catch {
      // It is asked for again, and whoever wants it meanwhile is told.
    } finally {
      loading.delete(reference);
    }
  };
  const loadAll = (): void => {
    for (const reference of references) inBackground('loading a model', () => load(reference));
  };
  loadAll();
  const timer = startInterval(loadAll, everyMs);
  timer.unref();
  return {
    get ready() {
      return references.every((reference) => host.serves(reference));
    },
    stop: () => {
      stopped = true;
      stopTimer(timer);
    },
  };
}

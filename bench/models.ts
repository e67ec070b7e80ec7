// Opens the models of the benchmarks: those trained for them, and the bundled one.

import { openRegistry } from '../src/doors/commands/open-registry.ts';
import type { ModelPackage } from '../src/model/package/model-package.ts';
import { REGISTRY } from './prepare.ts';

export const openModel = async (reference: string): Promise<ModelPackage> =>
  (await openRegistry(REGISTRY)).resolve(reference);

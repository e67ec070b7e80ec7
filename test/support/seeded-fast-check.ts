// fast-check with the seed of the run: vitest.config.ts puts it in the place of the package.
import fc from '../../node_modules/fast-check/lib/fast-check.js';
import { SEED } from './tiers.ts';

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: SEED });
export default fc;

// fast-check with the seed of the run.
import fc from 'fast-check';
import { SEED } from './tiers.ts';

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: SEED });
export default fc;

// A process that moves records for months: what it no longer needs is to be freed soon, not when it is a hundred megabytes.
import { setFlagsFromString } from 'node:v8';

/**
 * From now on V8's new space does not grow. It would to 100 MB and more while records stream through, although few of them outlive the
 * next collection; that it stays at what it is costs some percent of CPU. V8 reads this flag whenever it thinks of growing the space.
 */
export function boundGarbage(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

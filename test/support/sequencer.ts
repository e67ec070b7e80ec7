// The order of test files: long files first, so that none of them runs alone at the end, and files that wait for a broker
// between files that compute.
import path from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take longest in `npm run check`, in the order in which they start. Files that need the Python environment of
 * `register.test.ts` come last, because on a clean checkout they would wait until it is installed.
 */
const LONG = [
  'clients/register',
  'monitoring/drills',
  'connectors/kafka/queries',
  'image/image',
  'docs/snippets',
  'doors/http/console',
  'connectors/kafka/upload',
  'runs/resume',
  'proof/changed-blocks',
  'oracle/crossings',
  'oracle/pairwise',
  'doors/http/reference-page',
  'security/hostile-files',
  'runs/objects',
  'engine/worker-death',
  'frames/frames',
  'docs/exporting',
  'onboarding/boosters',
  'clients/client',
  'inference/boosters/boosters',
  'docs/tutorial',
].map((name) => path.resolve('test', `${name}.test.ts`));

const rankOf = ({ moduleId }: TestSpecification): number => {
  const rank = LONG.indexOf(moduleId);
  return rank < 0 ? LONG.length : rank;
};

export class InterleavingSequencer extends BaseSequencer {
  /** Vitest would start all files of a project before the first file of the next project, although they share workers. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
    const byProject = Map.groupBy(sorted, ({ project }) => project.name);
    const share = new Map([...byProject.values()].flatMap((of) => of.map((file, i) => [file, (i + 0.5) / of.length])));
    return sorted.sort((a, b) => share.get(a)! - share.get(b)!);
  }
}

// The order of test files: long files first, so that none of them runs alone at the end, then files with a process of their own. Then
// files that wait for a broker between files that compute: a process goes on to the next file only if that one shares it.
import path from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take longest in `npm run check`, in the order in which they start. Files that need the Python environment of
 * `register.test.ts` come last, because on a clean checkout they would wait until it is installed.
 */
export const LONG = [
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

/** Name of the project whose files have a process each. */
export const ALONE = 'alone';

const isOfBroker = ({ moduleId }: TestSpecification): boolean => moduleId.includes('/test/connectors/kafka/');

export class InterleavingSequencer extends BaseSequencer {
  /** Vitest would start all files of a project before the first file of the next project, although they share workers. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
    const [alone = [], others = []] = [true, false].map((of) =>
      sorted.filter((f) => (f.project.name === ALONE) === of),
    );
    const ordered = [...Map.groupBy(others, ({ project }) => project.name).values()].flatMap((of) => {
      const byKind = Map.groupBy(of, isOfBroker);
      const share = new Map(
        [...byKind.values()].flatMap((kind) => kind.map((file, i) => [file, (i + 0.5) / kind.length])),
      );
      return of.sort((a, b) => share.get(a)! - share.get(b)!);
    });
    return [...alone, ...ordered];
  }
}

// Finds the test files that reach a source file, the nearest ones first.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/**
 * Tests that need a real broker, an image, other programs, or minutes; and tests of the repository itself, which read
 * the text of the sources.
 */
const LEFT_OUT =
  /^test\/(?:architecture|docs|examples|image|install|kubernetes|monitoring|mutation|security|zoo|kafka\/chaos)\//;
/** What tests with a real broker import: they take longer than a mutant may. */
const BROKER = 'test/support/kafka/cluster.ts';

/** The files that one imports, by statement, by `import()` or as the address of a worker, without imports of types. */
function importsOf(file: string): Set<string> {
  const code = readFileSync(file, 'utf8').replaceAll(/^import type [^;]*;/gm, '');
  const found = new Set<string>();
  for (const [, name] of code.matchAll(/'([^'\n]+\.ts)'/g)) {
    // A path from the root names the program of a process.
    const target = name!.startsWith('.') ? path.posix.join(path.posix.dirname(file), name!) : name!;
    if (/^(?:src|test)\//.test(target) && existsSync(target)) found.add(target);
  }
  return found;
}

const filesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
    .map((name) => path.posix.join(folder, name.replaceAll(path.sep, '/')));

/** How many folders lead from the one of a source file to that of a test file, where `test/io` counts as `src/io`. */
function folderDistance(source: string, test: string): number {
  const [a, b] = [source, test].map((file) => path.posix.dirname(file).split('/').slice(1)) as [string[], string[]];
  let same = 0;
  while (same < Math.min(a.length, b.length) && a[same] === b[same]) same++;
  return a.length + b.length - 2 * same;
}

/** Words that the names of both files have: `commit.test.ts` is about `commit-set.ts`. */
function sharedWords(source: string, test: string): number {
  const words = (file: string) => path.posix.basename(file).split('.')[0]!.split('-');
  const wanted = new Set(words(source));
  return words(test).filter((word) => wanted.has(word)).length;
}

export interface ReachingTest {
  test: string;
  /** Imports between the test file and the source file, and what their paths have in common. */
  distance: number;
}

export class ReachingTests {
  /** File → the files that import it. */
  readonly #importers = new Map<string, Set<string>>();
  readonly #withBroker: Map<string, number>;

  constructor() {
    for (const file of [...filesOf('src'), ...filesOf('test')]) {
      for (const target of importsOf(file)) {
        this.#importers.set(target, (this.#importers.get(target) ?? new Set()).add(file));
      }
    }
    this.#withBroker = this.#distances(BROKER);
  }

  /** Imports between each file that reaches `target` and `target` itself. */
  #distances(target: string): Map<string, number> {
    const distances = new Map([[target, 0]]);
    // Entries that are added while the loop runs are visited, too.
    for (const [file, distance] of distances) {
      for (const importer of this.#importers.get(file) ?? []) {
        if (!distances.has(importer)) distances.set(importer, distance + 1);
      }
    }
    return distances;
  }

  /** Test files that reach the source file, the nearest first. */
  of(source: string): ReachingTest[] {
    return [...this.#distances(source)]
      .filter(([file]) => file.endsWith('.test.ts') && !LEFT_OUT.test(file) && !this.#withBroker.has(file))
      .map(([test, imports]) => ({
        test,
        distance: imports + folderDistance(source, test) / 2 - sharedWords(source, test),
      }))
      .sort((a, b) => a.distance - b.distance || (a.test < b.test ? -1 : 1));
  }

  reaches(from: string, source: string): boolean {
    return this.#distances(source).has(from);
  }
}

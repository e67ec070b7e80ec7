// Finds the test files that reach a source file, the nearest ones first.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/**
 * Tests that need a real broker, an image, other programs, or minutes; and tests of the repository itself, which read
 * the text of the sources.
 */
export const LEFT_OUT = [
  'architecture',
  'clients',
  'docs',
  'examples',
  'image',
  'install',
  'kubernetes',
  'monitoring',
  'mutation',
  'security',
  'zoo',
];
const OF_REPOSITORY = new RegExp(`^test/(?:${LEFT_OUT.join('|')})/`);
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

/** Imports that equal words make up for. A file with other words than those of the source is about something else, however near it is. */
const LIKENESS = 6;

/** The different words of a file with its name, those of camelCase one by one. */
function wordsOf(file: string): Set<string> {
  const text = `${path.posix.basename(file)} ${readFileSync(file, 'utf8')}`;
  return new Set(text.match(/[A-Z]?[a-z]{2,}/g)?.map((word) => word.toLowerCase()));
}

/** Cosine of the words of files, in which a word counts the more the fewer files have it. */
class Likeness {
  readonly #words: ReadonlyMap<string, Set<string>>;
  readonly #weights = new Map<string, number>();

  constructor(files: readonly string[]) {
    this.#words = new Map(files.map((file) => [file, wordsOf(file)]));
    const counts = new Map<string, number>();
    for (const words of this.#words.values()) for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
    for (const [word, count] of counts) this.#weights.set(word, Math.log(files.length / count) ** 2);
  }

  #weight(words: Iterable<string>): number {
    let sum = 0;
    for (const word of words) sum += this.#weights.get(word)!;
    return sum;
  }

  of(a: string, b: string): number {
    const [x, y] = [this.#words.get(a)!, this.#words.get(b)!];
    return this.#weight([...x].filter((word) => y.has(word))) / Math.sqrt(this.#weight(x) * this.#weight(y));
  }
}

export interface ReachingTest {
  test: string;
  /** Imports between the test file and the source file, folders between them, and less where they have words in common. */
  distance: number;
}

export class ReachingTests {
  /** File → the files that import it. */
  readonly #importers = new Map<string, Set<string>>();
  readonly #withBroker: Map<string, number>;
  readonly #likeness: Likeness;

  constructor() {
    const files = [...filesOf('src'), ...filesOf('test')];
    this.#likeness = new Likeness(files);
    for (const file of files) {
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
      .filter(([file]) => file.endsWith('.test.ts') && !OF_REPOSITORY.test(file) && !this.#withBroker.has(file))
      .map(([test, imports]) => ({
        test,
        distance: imports + folderDistance(source, test) / 2 - LIKENESS * this.#likeness.of(source, test),
      }))
      .sort((a, b) => a.distance - b.distance || (a.test < b.test ? -1 : 1));
  }

  reaches(from: string, source: string): boolean {
    return this.#distances(source).has(from);
  }
}

// Defences that bound the cost of input. `mutations.test.ts` removes each of them: the test named must fail then.
import type { Defence } from './defence.ts';

const EXTREMES = 'test/inference/explain/extreme-values.test.ts';
const DEATHS = 'test/engine/worker-death.test.ts';
const YAML = 'test/config/yaml-cost.test.ts';
const PACKAGES = 'test/model/package/package-limits.test.ts';
const UPLOADS = 'test/doors/http/model-uploads.test.ts';
const FAIRNESS = 'test/doors/http/fairness.test.ts';

export const COST_DEFENCES: Defence[] = [
  {
    name: 'a series of an average of logistic functions has a largest number of waves',
    file: 'src/inference/explain/logistic-games.ts',
    find: 'if (wavesIn(period) <= this.#mostWaves) this.#series(',
    replace: 'if (wavesIn(period) <= 16 * this.#mostWaves) this.#series(',
    test: EXTREMES,
  },
  {
    name: 'coalitions of large terms have a largest number',
    file: 'src/inference/explain/logistic-games.ts',
    find: 'const MOST_COALITIONS = 8192;',
    replace: 'const MOST_COALITIONS = 131_072;',
    test: EXTREMES,
  },
  {
    name: 'a row whose interpretation ends its worker is scored without it',
    file: 'src/engine/bisect.ts',
    find: 'const interpreted = stream.kind.spec.output.interpretation !== null && !job.uninterpreted;',
    replace: 'const interpreted = false;',
    test: DEATHS,
  },
  {
    name: 'nesting of YAML is bounded before it is read by recursion',
    file: 'src/config/yaml.ts',
    find: 'if (depth >= MOST_DEPTH) return token.offset;',
    replace: '',
    test: YAML,
  },
  {
    name: 'aliases of YAML are counted',
    file: 'src/config/yaml.ts',
    find: 'else if (++aliases > MOST_ALIASES)',
    replace: 'else if (aliases > MOST_ALIASES)',
    test: YAML,
  },
  {
    name: 'values that aliases of YAML repeat are counted',
    file: 'src/config/yaml.ts',
    find: 'if (size > MOST_VALUES && !excess) {',
    replace: 'if (size > 1000 * MOST_VALUES && !excess) {',
    test: YAML,
  },
  {
    name: 'model.yaml and package.lock are not read where they are too large',
    file: 'src/model/package/package-limits.ts',
    find: 'if (found.size > most) throw tooLarge(file, found.size, most);',
    replace: '',
    test: PACKAGES,
  },
  {
    name: 'what is no regular file is not read',
    file: 'src/model/package/package-limits.ts',
    find: 'if (!found.isFile()) throw',
    replace: 'if (found.isSocket()) throw',
    test: PACKAGES,
  },
  {
    name: 'the files that model.yaml names have limits',
    file: 'src/model/package/load-package.ts',
    find: 'assertWithinLimits(parsed.value, files);',
    replace: '',
    test: PACKAGES,
  },
  {
    name: 'a file of another size than when the package was loaded is not read',
    file: 'src/model/package/model-package.ts',
    find: 'if ((await stat(file)).size === listed?.bytes) bytes',
    replace: 'bytes',
    test: PACKAGES,
  },
  {
    name: 'a long model.yaml is read on a thread of its own',
    file: 'src/model/package/read-model-yaml.ts',
    find: 'return isManifest(value) ? { ok: true, value } : readOnThread({ file, text });',
    replace: 'return isManifest(value) ? { ok: true, value } : readModelYamlHere({ file, text });',
    test: PACKAGES,
  },
  {
    name: 'a key for some models is refused before the body of an upload is read',
    file: 'src/doors/http/routes/model-writes.ts',
    find: 'else assertMayUseAll(request);',
    replace: '',
    test: UPLOADS,
  },
  {
    name: 'a key has a largest number of package uploads at once',
    file: 'src/doors/http/routes/model-writes.ts',
    find: 'if (underWay >= config.limits[limit])',
    replace: 'if (underWay >= 1000 * config.limits[limit])',
    test: UPLOADS,
  },
  {
    name: 'model.yaml of an upload is bounded while it arrives',
    file: 'src/doors/http/routes/model-writes.ts',
    find: 'const mostOfFile = name === MANIFEST ? MOST_TEXT_BYTES : most;',
    replace: 'const mostOfFile = most;',
    test: UPLOADS,
  },
  {
    name: 'one trial of each key at a time',
    file: 'src/doors/http/wire/key-turns.ts',
    find: 'if (this.#busy.has(key)) continue;',
    replace: '',
    test: UPLOADS,
  },
  {
    name: 'the rest of a refused form is discarded',
    file: 'src/doors/http/wire/send-problem.ts',
    find: '  raw.unpipe();\n',
    replace: '',
    test: UPLOADS,
  },
  {
    name: 'a job of another key runs beside a long one',
    file: 'src/doors/http/jobs/job-runner.ts',
    find: 'this.#running.size < concurrent + MOST_OTHER_KEYS',
    replace: 'this.#running.size < concurrent',
    test: FAIRNESS,
  },
  {
    name: 'beyond the limit of jobs a key has one job at most',
    file: 'src/doors/http/jobs/sqlite-jobs.ts',
    find: '.filter((j) => !busy.includes(j.owner))',
    replace: '',
    test: 'test/doors/http/job-store.test.ts',
  },
  {
    name: 'workers take turns between owners, not between streams',
    file: 'src/engine/job-queue.ts',
    find: 'const ownerOf = (stream: JobStream): unknown => stream.owner ?? stream;',
    replace: 'const ownerOf = (stream: JobStream): unknown => stream;',
    test: FAIRNESS,
  },
];

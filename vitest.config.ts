import { globSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { defineConfig } from 'vitest/config';
import { KEPT_FOLDER } from './test/support/kept-folder.ts';
import { PATIENCE_MS, TEST_TIMEOUT_MS } from './test/support/patience.ts';
import { ALONE, InterleavingSequencer, LONG } from './test/support/sequencer.ts';
import { SummaryReporter } from './test/support/summary-reporter.ts';

/** Imports of test files that do more in a campaign. */
const REPEATS =
  /import \{[^}]*\b(?:campaignTest|campaignTestNeeding|times|stride|describeEach|testOfMany|TIER)\b[^}]*\} from '[^']*\/(?:tiers|tools)\.ts'/;
/** Test files whose repetitions are in modules that they share. */
const REPEAT_TOO = /^test\/(?:formats\/decode|connectors\/kafka\/client|oracle)\//;
const testFiles = (): string[] =>
  readdirSync('test', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => `test/${file}`)
    .sort();

/** What `npm run test:campaigns` runs. */
const campaigns = (): string[] =>
  testFiles().filter((file) => REPEAT_TOO.test(file) || REPEATS.test(readFileSync(file, 'utf8')));

/**
 * Left out of `npm test`: each takes seconds of CPU, and what it is about has a property, the combinations of test/oracle or an entry
 * point in the files that stay. `npm run check` runs all of them.
 */
const NOT_QUICK = [
  'test/architecture/regular-expressions.test.ts',
  'test/config/yaml-cost.test.ts',
  'test/demo/generate.test.ts',
  'test/docs/{compose,examples,library,options,pages,readme,snippets}.test.ts',
  'test/doors/commands/{explain-interactions,launcher,loaded,model,standard-streams}.test.ts',
  'test/doors/http/{arrow,audit,binary-tensors,bodies,client-certificates,connections,console,console-login,content-coding,cross-origin,drift,fairness,file-modes,interactions,logs,model-uploads,models,openapi,openapi-examples,pipeline-states,proxies,raw-heads,reference-page,resumable-uploads,security,sigterm,tables,tenants,tokens,tus-clients,unread-answers,upload}.test.ts',
  'test/drift/counting.test.ts',
  'test/engine/{ahead,empty-row,few,gradual,helping,host-events,score-file,whole,worker-death}.test.ts',
  'test/inference/explain/{answers,budget,extreme-values,leaf-groups,memo-pool,pairs,zoo}.test.ts',
  'test/inference/limited-process.test.ts',
  'test/formats/decode/many-categories.test.ts',
  'test/formats/write/number.test.ts',
  'test/inspect/{foreign-names,random-dialects,scored-total-line,twelve-files}.test.ts',
  'test/io/source/{delimited-grammar,delimited-scanner,json-scanner}.test.ts',
  'test/kubernetes/manifests.test.ts',
  'test/model/package/package-limits.test.ts',
  'test/model/signing/model-signature.test.ts',
  'test/monitor/{process-faults,tracing}.test.ts',
  'test/mutation/mutation.test.ts',
  'test/onboarding/{booster-encoding,compare-packages,exports,mutations,own-keys,witness,zoo}.test.ts',
  'test/oracle/crossings-reference.test.ts',
  'test/report/pages-in-browser.test.ts',
  'test/project/init.test.ts',
  'test/proof/{changed-blocks,one-byte,replay-outputs}.test.ts',
  'test/runs/{containers,gc-tuning,interactions,pipelines,read-pipeline,sealed-doors,shared-shards,skip-lines}.test.ts',
  'test/security/{amplification,fuzz,hostile-files,no-telemetry}.test.ts',
  'test/wasm/planted-faults.test.ts',
];

/** Imports of functions that define a test of `npm test`, and of those that define one of the other tiers only. */
const TESTS_QUICK =
  /import \{[^}]*\b(?:test|testNeeding|testOfMany|describeEach)\b[^}]*\} from '(?:vitest|[^']*\/(?:tiers|tools)\.ts)'/;
const TESTS_LATER = /import \{[^}]*\b(?:check|campaign)Test(?:Needing)?\b[^}]*\} from '[^']*\/(?:tiers|tools)\.ts'/;
/** Files that `npm test` would load only to skip each of their tests. */
const skippedWhole = (): string[] =>
  testFiles().filter((file) => {
    const text = readFileSync(file, 'utf8');
    return TESTS_LATER.test(text) && !TESTS_QUICK.test(text);
  });

/**
 * What a test file does only in a process of its own: changes the environment or the folder of the process, replaces functions for all
 * files, imports a module for its effect or a package that replaces functions of Node (Playwright, tus-js-client), loads files of kafkajs
 * before Sluice repairs them, or measures memory or CPU time. Long files gain nothing from sharing.
 */
const NEEDS_PROCESS =
  /process\.env(?:\.\w+|\[[^\]]+\]) (?:\?\?)?= |delete process\.env|process\.(?:chdir|on|once)\(|memoryUsage|resourceUsage|cpuUsage|heapUsed|\bvi\.|\/browser\.ts'|\/page-checks\.ts'|'tus-js-client'|'kafkajs\/src\/|^import '[^']*\/support\//m;
const aloneFiles = (): string[] =>
  testFiles().filter((file) => LONG.includes(path.resolve(file)) || NEEDS_PROCESS.test(readFileSync(file, 'utf8')));

/** Files of a project whose files share processes. A process goes on within a project only, and gives back little memory. */
const FILES_OF_PROJECT = 50;
/** Divides files among projects, so that all have files of each folder. */
function shares(files: readonly string[]): string[][] {
  const count = Math.ceil(files.length / FILES_OF_PROJECT);
  return Array.from({ length: count }, (_, n) => files.filter((_file, i) => i % count === n));
}

/** Suites with a real broker. They mostly wait for it, so they share the processors with suites that compute. */
const BROKERS = ['test/connectors/kafka/**/*.test.ts'];

/** Variables of test files and of the processes that they start. */
const environmentOf = (tier: string, seed: string, isWhole: boolean, byNpmTest: boolean) => ({
  ...(isWhole && tier !== 'campaigns' ? { SLUICE_HOLD_OUTPUT: '1' } : {}),
  // `npm run check` has just built the program: processes that tests start run what users run.
  ...(isWhole && byNpmTest && tier === 'check' ? { SLUICE_TEST_MAIN: path.resolve('dist/main.js') } : {}),
  SLUICE_TIER: tier,
  SLUICE_SEED: seed,
  // What is found out about a model is kept for all tests of one run, and by none for the next run.
  SLUICE_CACHE: KEPT_FOLDER,
  // Threads of Python libraries spin while they wait for each other, which multiplies their CPU seconds on a busy machine.
  OMP_NUM_THREADS: '1',
  OPENBLAS_NUM_THREADS: '1',
  GOMP_SPINCOUNT: '0',
  // Python libraries and test files that import ONNX Runtime themselves report nothing either.
  ORT_DISABLE_TELEMETRY: '1',
  // Python compiles each module once, and into no folder of the sources.
  PYTHONDONTWRITEBYTECODE: '',
  PYTHONPYCACHEPREFIX: path.resolve('.cache/python/compiled'),
});

// `npm test` runs what a bare machine can within minutes. Everything else is asked for: `--mode check` and `--mode campaigns`
// by the scripts of package.json; whoever calls vitest by hand means the files that are named, whole.
export default defineConfig(({ mode }) => {
  const byNpmTest = process.env.npm_lifecycle_event === 'test';
  const tier = mode === 'test' ? (byNpmTest ? 'quick' : 'check') : mode;
  if (!['quick', 'check', 'campaigns'].includes(tier)) throw new Error('--mode takes quick, check or campaigns');
  const seed = process.env.SLUICE_SEED ?? String(tier === 'campaigns' ? Date.now() % 2 ** 31 : 1);
  // A run of named files lists each of their tests.
  const isWhole = !process.argv.some((word) => word.endsWith('.ts') || word.startsWith('test/'));
  const common = {
    testTimeout: tier === 'campaigns' ? 12 * 3_600_000 : TEST_TIMEOUT_MS,
    hookTimeout: TEST_TIMEOUT_MS,
    expect: { poll: { timeout: PATIENCE_MS }, requireAssertions: tier !== 'campaigns' },
    pool: 'forks' as const,
    // Node runs the files as it runs the program.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // Node strips types in WebAssembly that calls JavaScript. Where several threads do, V8 13.6 may crash when it compiles those calls anew
    // (ThreadIsolation::UnregisterWasmAllocation); what is built has no types.
    // A larger young generation saves a twentieth of the CPU time.
    execArgv: ['--wasm-wrapper-tiering-budget=1000000000', '--min-semi-space-size=16', '--max-semi-space-size=64'],
    env: environmentOf(tier, seed, isWhole, byNpmTest),
    globalSetup: 'test/support/kept-folder.ts',
    setupFiles: 'test/support/setup.ts',
  };
  // Files that are named run in any tier. Those of brokers have nothing to do without one.
  const notQuick = tier === 'quick' && isWhole ? [...NOT_QUICK, ...skippedWhole(), ...BROKERS] : [];
  const files = tier === 'campaigns' ? campaigns() : ['test/**/*.test.ts'];
  // Vitest wants the files of a project as patterns: those that belong to another one are taken out of it.
  const omitted = new Set(globSync(notQuick));
  // Processes and brokers that they wait for leave room for two more. Seven files at a time take longer.
  const maxWorkers = tier === 'quick' && isWhole ? 3 : 5;
  const engine = { test: { ...common, name: 'engine', include: files, exclude: notQuick, maxWorkers } };
  /** Projects whose files share processes, and one for the other files. */
  const sharing = () => {
    const alone = aloneFiles();
    const shared = testFiles().filter((file) => !omitted.has(file) && !alone.includes(file));
    const env = { ...common.env, SLUICE_SHARES_PROCESS: '1' };
    return [
      { test: { ...engine.test, name: ALONE, include: alone } },
      ...shares(shared).map((include, n) => ({
        test: { ...engine.test, name: `shared ${n + 1}`, include, isolate: false, env },
      })),
    ];
  };
  return {
    test: {
      maxWorkers: 2,
      // How long a process of tests may take to end before it is reported.
      teardownTimeout: PATIENCE_MS,
      // A given sequencer would disable --sequence.shuffle.
      ...(process.argv.some((word) => word.startsWith('--sequence'))
        ? {}
        : { sequence: { sequencer: InterleavingSequencer } }),
      reporters: [isWhole ? 'minimal' : 'default', new SummaryReporter(tier, seed, omitted.size)],
      // A process for each file takes a third of the CPU time of `npm test`. Campaigns and named files have it.
      projects: isWhole && byNpmTest && tier !== 'campaigns' ? sharing() : [engine],
    },
  };
});

import { defineConfig } from 'vitest/config';
import { KEPT_FOLDER } from './test/support/kept-folder.ts';
import { PATIENCE_MS, TEST_TIMEOUT_MS } from './test/support/patience.ts';
import { SummaryReporter } from './test/support/summary-reporter.ts';

/** Where `npm run test:campaigns` finds tests that do more of what they do. */
const CAMPAIGNS = [
  'test/doors/commands/wrong-words.test.ts',
  'test/doors/http/{connections,cut-answers,models,open-inference-client,replicas,sigterm}.test.ts',
  'test/engine/{cost,declared-input,ends}.test.ts',
  'test/examples/*.test.ts',
  'test/image/image.test.ts',
  'test/inference/{hostile,explain/leaf-groups,explain/zoo}.test.ts',
  'test/install/tarballs.test.ts',
  'test/io/columns/writers.test.ts',
  'test/io/decode/*.test.ts',
  'test/io/sink/columnar-sink.test.ts',
  'test/kafka/{drills,oauthbearer,pipeline,schemas,several-topics,topic-table,upload}.test.ts',
  'test/kafka/client/{kafkajs,platformatic}.test.ts',
  'test/kafka/desk/selections.test.ts',
  'test/oracle/*.test.ts',
  'test/onboarding/{mutations,sneaky,witness,zoo}.test.ts',
  'test/runs/{asked-models,containers,commit,objects,resume,resume-faults,sealed-doors,shards,gate,table-readers}.test.ts',
  'test/proof/{one-byte,replay-outputs}.test.ts',
  'test/security/{amplification,fuzz,mutations}.test.ts',
];

/** Suites that measure time against a real broker, or wait for alerts that come after a time: neighbours would disturb them. */
const ALONE = [
  'test/kafka/{alert-drills,chaos,drained-backlog,endurance,healthy-topic-run,lag,late-commits,queries,retries,static-membership}.test.ts',
  'test/monitoring/{drills,healthy}.test.ts',
];
/** Suites with a real broker, which mostly wait for it. */
const BROKERS = ['test/kafka/**/*.test.ts'];

// `npm test` runs what a bare machine can within minutes. Everything else is asked for: `--mode check` and `--mode campaigns`
// by the scripts of package.json; whoever calls vitest by hand means the files that are named, whole.
export default defineConfig(({ mode }) => {
  const byNpmTest = process.env.npm_lifecycle_event === 'test';
  const tier = mode === 'test' ? (byNpmTest ? 'quick' : 'check') : mode;
  if (!['quick', 'check', 'campaigns'].includes(tier)) throw new Error('--mode takes quick, check or campaigns');
  const seed = process.env.SLUICE_SEED ?? String(tier === 'campaigns' ? Date.now() % 2 ** 31 : 1);
  const common = {
    testTimeout: tier === 'campaigns' ? 12 * 3_600_000 : TEST_TIMEOUT_MS,
    hookTimeout: TEST_TIMEOUT_MS,
    expect: { poll: { timeout: PATIENCE_MS } },
    pool: 'forks' as const,
    // Node strips types in WebAssembly that calls JavaScript. Where several threads do, V8 13.6 may crash when it compiles those calls anew
    // (ThreadIsolation::UnregisterWasmAllocation); what is built has no types.
    execArgv: ['--wasm-wrapper-tiering-budget=1000000000'],
    // What is found out about a model is kept for all tests of one run, and by none for the next run.
    env: { SLUICE_TIER: tier, SLUICE_SEED: seed, SLUICE_CACHE: KEPT_FOLDER },
    globalSetup: 'test/support/kept-folder.ts',
    setupFiles: 'test/support/file-cpu.ts',
  };
  const files = tier === 'campaigns' ? CAMPAIGNS : ['test/**/*.test.ts'];
  // Vitest wants the files of a project as patterns: those that belong to another one are taken out of it.
  const kafka = tier === 'campaigns' ? files.filter((f) => f.startsWith('test/kafka/')) : BROKERS;
  return {
    test: {
      maxWorkers: 2,
      reporters: [
        process.argv.some((word) => word.endsWith('.ts') || word.startsWith('test/')) ? 'default' : 'minimal',
        new SummaryReporter(tier, seed),
      ],
      projects: [
        {
          test: {
            ...common,
            name: 'engine',
            include: files,
            exclude: [...BROKERS, ...ALONE],
            // Processes that they wait for leave room for a third.
            maxWorkers: 3,
            sequence: { groupOrder: 0 },
          },
        },
        {
          test: {
            ...common,
            name: 'brokers',
            include: kafka,
            exclude: ALONE,
            maxWorkers: 3,
            sequence: { groupOrder: 1 },
          },
        },
        {
          // After all others and one at a time.
          test: {
            ...common,
            name: 'alone',
            include: ALONE,
            fileParallelism: false,
            sequence: { groupOrder: 2 },
          },
        },
      ],
    },
  };
});

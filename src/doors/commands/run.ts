// `sluice run`, `lint`, `test` and `dlq`: pipelines.
import path from 'node:path';
import type { Command } from 'commander';
import { type Pipeline, readPipeline } from '../../config/pipeline-config.ts';
import { asSluiceError, SluiceError } from '../../core/errors.ts';
import { hostEvents } from '../../engine/host-events.ts';
import { ModelHost, type ModelHostOptions } from '../../engine/model-host.ts';
import { Metrics } from '../../monitor/metrics.ts';
import { serveMetrics } from '../../monitor/metrics-server.ts';
import { count } from '../../monitor/progress.ts';
import type { RunContext, RunningPipeline } from '../../runs/context.ts';
import { defaultWorkers } from '../../runs/score-file.ts';
import { EXIT } from './exit-codes.ts';
import { openRegistry } from './open-registry.ts';
import { signalled } from './signals.ts';
import { wholeNumber } from './whole-number.ts';

interface RunFlags {
  registry?: string;
  dryRun?: boolean;
  metricsPort?: number;
  metricsHost: string;
  stopMs: number;
  json?: boolean;
}

const out = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
const tell = (text: string): void => {
  process.stderr.write(`sluice: ${text}\n`);
};
const registryFlag = [
  '--registry <address>',
  'folder, s3://… or mlflow+https://… (default: $SLUICE_REGISTRY or ./models)',
] as const;

export function addRunCommands(program: Command): void {
  program
    .command('run')
    .description('run a pipeline until it ends or is stopped')
    .argument('<pipeline>', 'YAML file; see docs/pipelines.md')
    .option('--dry-run', 'look at everything, score ten applications, write and commit nothing')
    .option(
      '--metrics-port <n>',
      'serve /metrics, /livez and /readyz over plain HTTP',
      wholeNumber('metrics-port', 0, 65_535),
    )
    .option('--metrics-host <address>', 'address of those', '127.0.0.1')
    .option(
      '--stop-ms <n>',
      'after SIGTERM: what is in hand may finish within this',
      wholeNumber('stop-ms', 0, 3_600_000),
      25_000,
    )
    .option(...registryFlag)
    .option('--json', 'a summary as JSON on standard output when it ends')
    .action(run);
  program
    .command('lint')
    .description('check pipelines and their models without touching sources or sinks')
    .argument('<pipelines...>', 'YAML files')
    .option(...registryFlag)
    .action(lint);
  program
    .command('test')
    .description('score the applications of *.test.yaml and compare')
    .argument('<pipelines...>', 'YAML files of the pipelines')
    .option(...registryFlag)
    .action(test);
  const dlq = program.command('dlq').description('dead letters');
  dlq
    .command('replay')
    .description('put dead letters back where they came from, each once')
    .argument('<pipeline>', 'YAML file with the dead letter topic')
    .option('--topic <topic>', 'another topic than the one they came from')
    .option('--code <codes>', 'only those with these error codes, comma-separated')
    .option('--column <column>', 'only those with this column at fault')
    .option('--json', 'counts as JSON on standard output')
    .action(replay);
}

async function hostFor(
  pipeline: Pipeline | null,
  registry: string | undefined,
  metrics: Metrics,
  tryOut?: ModelHostOptions['tryOut'],
): Promise<ModelHost> {
  return new ModelHost({
    registry: await openRegistry(registry, { tell, onLookup: (outcome) => metrics.lookups.inc({ outcome }) }),
    workers: pipeline?.score.workers ?? defaultWorkers(),
    engine: pipeline?.score.evaluator ?? 'auto',
    max: 4,
    ...(tryOut ? { tryOut } : {}),
    ...hostEvents(metrics, tell),
  });
}

async function run(file: string, flags: RunFlags): Promise<void> {
  const pipeline = await readPipeline(file);
  const metrics = new Metrics();
  const { tryPackage } = await import('../../onboarding/verify.ts');
  const host = await hostFor(pipeline, flags.registry, metrics, tryPackage);
  const context: RunContext = { name: path.basename(file).replace(/\.ya?ml$/i, ''), host, metrics, tell };
  let running: RunningPipeline | null = null;
  const server =
    flags.metricsPort === undefined
      ? null
      : await serveMetrics(metrics, flags.metricsHost, flags.metricsPort, () => running !== null);
  if (server) tell(`metrics on http://${flags.metricsHost}:${server.port}/metrics`);
  const { signal, dispose } = signalled();
  const began = performance.now();
  try {
    if (flags.dryRun) {
      const { dryRun } = await import('../../runs/dry-run.ts');
      await dryRun(pipeline, context, out);
      return;
    }
    const { startPipeline } = await import('../../runs/start-pipeline.ts');
    // The model first: a pipeline that joins its group and cannot score would hold partitions for nothing.
    running = await startPipeline(pipeline, context);
    const stopOnSignal = () => {
      tell(`stopping: what is in hand may finish within ${flags.stopMs} ms`);
      void running!.stop(flags.stopMs);
    };
    signal.addEventListener('abort', stopOnSignal, { once: true });
    if (signal.aborted) stopOnSignal();
    const timer = setInterval(() => tellProgress(running!, began), 10_000);
    try {
      await running.done;
    } catch (error) {
      const stopped = signal.aborted && asSluiceError(error, 'worker_failed').code === 'cancelled';
      if (!stopped || pipeline.source.type !== 'kafka') throw error;
    } finally {
      clearInterval(timer);
    }
    tellProgress(running, began);
    if (flags.json)
      out(JSON.stringify({ pipeline: file, ...running.totals, seconds: (performance.now() - began) / 1000 }));
    if (running.totals.rejected > 0 && pipeline.source.type !== 'kafka') process.exitCode = EXIT.rejected;
  } finally {
    dispose();
    await running?.stop(flags.stopMs);
    await host.close();
    await server?.close();
  }
}

function tellProgress(running: RunningPipeline, began: number): void {
  const { rows, scored, rejected } = running.totals;
  const lag = running.lag();
  const rate = Math.round(rows / Math.max(0.001, (performance.now() - began) / 1000));
  tell(
    `${count(rows)} rows = ${count(scored)} scored + ${count(rejected)} rejected, ${count(rate)} rows/s${lag === null ? '' : `, lag ${count(lag)}`}`,
  );
}

async function lint(files: string[], flags: { registry?: string }): Promise<void> {
  const registry = await openRegistry(flags.registry);
  const problems: string[] = [];
  for (const file of files) {
    try {
      const pipeline = await readPipeline(file);
      const model = await registry.resolve(pipeline.model);
      if (pipeline.score.interpretation !== 'none' && !model.manifest.explain?.background) {
        problems.push(`${file}:1:1 ${model.ref} has no background sample: score.interpretation must be none`);
      }
      const { unmappedReasons } = await import('../../inference/explain/interpretation.ts');
      const unmapped = pipeline.score.interpretation === 'none' ? [] : unmappedReasons(model.manifest);
      if (unmapped.length > 0) tell(`${file}: ${model.ref} gives no reason texts for ${unmapped.join(', ')}`);
    } catch (error) {
      const e = asSluiceError(error, 'usage');
      problems.push(e.code === 'usage' ? e.message : `${file}:1:1 model: ${e.message}`);
    }
  }
  if (problems.length > 0) throw new SluiceError('usage', problems.join('\n'));
  out(`${files.length} ${files.length === 1 ? 'pipeline is' : 'pipelines are'} in order`);
}

async function test(files: string[], flags: { registry?: string }): Promise<void> {
  const { runPipelineTests } = await import('../../runs/pipeline-tests.ts');
  let failed = 0;
  let passed = 0;
  for (const file of files) {
    const pipeline = await readPipeline(file);
    const host = await hostFor(
      { ...pipeline, score: { ...pipeline.score, workers: 1 } },
      flags.registry,
      new Metrics(),
    );
    try {
      for (const { name, failure } of await runPipelineTests(pipeline, host)) {
        out(`${failure === null ? 'passed' : 'FAILED'} ${file}: ${name}${failure === null ? '' : `: ${failure}`}`);
        if (failure === null) passed++;
        else failed++;
      }
    } finally {
      await host.close();
    }
  }
  out(`${passed} passed, ${failed} failed`);
  if (failed > 0) process.exitCode = EXIT.failed;
}

async function replay(
  file: string,
  flags: { topic?: string; code?: string; column?: string; json?: boolean },
): Promise<void> {
  const pipeline = await readPipeline(file);
  if (pipeline.dead_letter?.type !== 'kafka') throw new SluiceError('usage', `${file} has no dead letter topic`);
  const [{ replayDeadLetters }, { connectionOf }] = await Promise.all([
    import('../../kafka/replay.ts'),
    import('../../runs/kafka-connection.ts'),
  ]);
  const codes = flags.code?.split(',');
  const { signal, dispose } = signalled();
  try {
    const report = await replayDeadLetters({
      connection: connectionOf(pipeline.kafka),
      deadLetterTopic: pipeline.dead_letter.topic,
      ...(flags.topic === undefined ? {} : { topic: flags.topic }),
      select: ({ code, column }) =>
        (codes === undefined || (code !== undefined && codes.includes(code))) &&
        (flags.column === undefined || column === flags.column),
      signal,
      observer: { onAbort: ({ message }) => tell(message), onRestart: ({ reason }) => tell(reason) },
    });
    if (flags.json) out(JSON.stringify(report));
    else out(`${report.replayed} put back, ${report.skipped} left, ${report.unusable} cannot be put back`);
  } finally {
    dispose();
  }
}

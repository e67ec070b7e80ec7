// `sluice run`, `sluice lint` and `sluice test`: run, check and test pipelines.

import path from 'node:path';
import type { Command } from 'commander';
import { connectorOf } from '../../connectors/connectors.ts';
import { asSluiceError, SluiceError } from '../../core/errors.ts';
import { pairsRefused } from '../../inference/explain/explainer.ts';
import { openCommandLog, orLogged } from './command-log.ts';
import { driveRun, say } from './drive-run.ts';
import { EXIT } from './exit-codes.ts';
import { addFlags } from './flags/command-spec.ts';
import { PIPELINE_COMMANDS, type RunFlags } from './flags/pipeline-flags.ts';
import { hintingAtInspection } from './inspect-hint.ts';
import { openRegistry } from './open-registry.ts';
import { contextFor } from './run-context.ts';

/** Imported on demand: the YAML library is needed only to read a file, and the help must be fast. */
/** Whether the name of a YAML file is that of a file with test cases, not of a pipeline. */
const isTestFile = (file: string): boolean => /\.test\.ya?ml$/i.test(file);
const readPipeline = async (file: string) => (await import('../../runs/read-pipeline.ts')).readPipeline(file);
type ReadPipeline = Awaited<ReturnType<typeof readPipeline>>;

const out = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
export function addRunCommands(program: Command): void {
  addFlags(program.command('run'), PIPELINE_COMMANDS.run).action(run);
  addFlags(program.command('lint'), PIPELINE_COMMANDS.lint).action(lint);
  addFlags(program.command('test'), PIPELINE_COMMANDS.test).action(test);
}

async function run(file: string, flags: RunFlags): Promise<void> {
  const name = path.basename(file).replace(/\.ya?ml$/i, '');
  if (flags.dryRun) {
    const pipeline = await readPipeline(file);
    const { dryRun } = await import('../../runs/checks/dry-run.ts');
    const context = await contextFor(pipeline, { name, registry: flags.registry }, null);
    try {
      await dryRun(pipeline, context, out);
    } finally {
      await context.close();
    }
    return;
  }
  const { metricsPort, metricsHost, metricsFile, pushGateway, stopMs, json, registry } = flags;
  const logged = await openCommandLog(flags, process.env);
  const left = { metricsFile, pushGateway };
  const options = { name, registry, metricsPort, metricsHost, ...left, stopMs, json, logged };
  await orLogged(logged, async () => {
    const said = await readPipeline(file);
    const pipeline = flags.deadline === undefined ? said : { ...said, deadline: flags.deadline };
    const resume = flags.restart ? ('restart' as const) : ('always' as const);
    const spec = { ...pipeline, resume };
    process.exitCode = await hintingAtInspection({ spec, registry }, () => driveRun(spec, options));
  });
}

async function lint(files: string[], flags: { registry?: string; schema?: boolean }): Promise<void> {
  if (flags.schema) return printSchemas(files);
  const registry = await openRegistry(flags.registry);
  const problems: string[] = [];
  const pipelines = files.filter((file) => !isTestFile(file));
  for (const file of files) {
    try {
      // A pattern that matches all pipelines also matches their test cases.
      if (isTestFile(file)) {
        const { readPipelineTests } = await import('../../runs/checks/pipeline-tests.ts');
        await readPipelineTests(file);
        continue;
      }
      const pipeline = await readPipeline(file);
      for (const end of new Set([pipeline.source, pipeline.sink].map(connectorOf)))
        for (const warning of (await end.warnings?.(pipeline)) ?? []) say(`${file}: ${warning}`);
      const misdelivered = await deliveryProblem(pipeline);
      if (misdelivered !== null) problems.push(`${file}:1:1 ${misdelivered}`);
      const model = await registry.resolve(pipeline.model);
      if (pipeline.score.interpretation !== 'none' && !model.manifest.explain?.background) {
        problems.push(`${file}:1:1 ${model.ref} has no background sample: score.interpretation must be none`);
      }
      const pairs = pairsRefused(model.manifest, pipeline.score.interactions);
      if (pairs !== null) problems.push(`${file}:1:1 score.interactions: ${pairs.message}`);
      const { modelMisfits } = await import('../../runs/checks/model-misfits.ts');
      problems.push(...modelMisfits(pipeline, model).map((misfit) => `${file}:1:1 ${misfit}`));
      const { unmappedReasons } = await import('../../inference/explain/interpretation.ts');
      const unmapped = pipeline.score.interpretation === 'none' ? [] : unmappedReasons(model.manifest);
      if (unmapped.length > 0) say(`${file}: ${model.ref} gives no reason texts for ${unmapped.join(', ')}`);
    } catch (error) {
      const e = asSluiceError(error, 'usage');
      problems.push(e.code === 'usage' ? e.message : `${file}:1:1 model: ${e.message}`);
    }
  }
  if (problems.length > 0) throw new SluiceError('usage', problems.join('\n'));
  out(`${pipelines.length} ${pipelines.length === 1 ? 'pipeline is' : 'pipelines are'} valid`);
}

/** Why the configured Kafka client does not support the pipeline's delivery guarantee; null if it does. */
async function deliveryProblem(pipeline: ReadPipeline): Promise<string | null> {
  const { checkDelivery } = await import('../../runs/spec.ts');
  return checkDelivery(pipeline).then(
    () => null,
    (error: unknown) => asSluiceError(error, 'kafka_config').message,
  );
}

async function printSchemas(files: readonly string[]): Promise<void> {
  const { publishedSchema } = await import('../../connectors/kafka/record-values.ts');
  for (const file of files) {
    const pipeline = await readPipeline(file);
    const { sink } = pipeline;
    if (sink.type !== 'kafka' || sink.format === 'json')
      throw new SluiceError(
        'usage',
        `${file}: the sink has no schema of predictions; only topics in avro, json_schema or protobuf have a schema`,
      );
    const { subjects, text } = await publishedSchema(sink, pipeline);
    say(`${file}: ${sink.format} under ${subjects.join(', ')}`);
    out(text);
  }
}

async function test(files: string[], flags: { registry?: string }): Promise<void> {
  const { runPipelineTests } = await import('../../runs/checks/pipeline-tests.ts');
  let failed = 0;
  let passed = 0;
  for (const file of files) {
    const pipeline = await readPipeline(file);
    const score = { ...pipeline.score, workers: 1 };
    const context = await contextFor({ score }, { name: file, registry: flags.registry }, null);
    try {
      for (const { name, failure } of await runPipelineTests(pipeline, await context.host())) {
        out(`${failure === null ? 'passed' : 'FAILED'} ${file}: ${name}${failure === null ? '' : `: ${failure}`}`);
        if (failure === null) passed++;
        else failed++;
      }
    } finally {
      await context.close();
    }
  }
  out(`${passed} passed, ${failed} failed`);
  if (failed > 0) process.exitCode = EXIT.failed;
}

// Flags of the commands that take pipeline files: `run`, `lint`, `test`.
import { text, whole } from '../options/describe-option.ts';
import { LOGGING } from '../options/logging.ts';
import { SCORING } from '../options/scoring.ts';
import { type CommandSpecs, registryFlag, switchFlag } from './command-spec.ts';

const pipelines = { name: 'pipelines', description: 'YAML files of pipelines', many: true, complete: 'file' } as const;

export const PIPELINE_COMMANDS = {
  run: {
    description: 'run a pipeline until it ends or is stopped',
    arguments: [{ name: 'pipeline', description: 'YAML file; see docs/pipelines.md', complete: 'file' }],
    flags: {
      dry_run: switchFlag('check everything, score ten applications, write and commit nothing'),
      metrics_port: {
        schema: whole('serve /metrics, /metrics/columns, /livez and /readyz over plain HTTP at this port', [0, 65_535]),
      },
      metrics_host: { schema: text('address for --metrics-port', { default: '127.0.0.1' }), value: 'address' },
      metrics_file: {
        schema: text('leave the metrics there at the end, for a collector of text files'),
        value: 'file',
        complete: 'file',
      },
      push_gateway: {
        schema: text('leave the metrics at this push gateway of Prometheus at the end'),
        value: 'address',
      },
      deadline: { schema: SCORING.deadline(), value: 'time' },
      restart: switchFlag(
        'between files: do not go on with an interrupted run; begin from the start, and remove what it left',
      ),
      stop_ms: {
        schema: whole('work in progress may finish within this after SIGTERM', [0, 3_600_000], { default: 25_000 }),
      },
      log_format: { schema: LOGGING.format({ otherwise: '$SLUICE_LOG_FORMAT, else auto' }), value: 'name' },
      log_level: { schema: LOGGING.level({ otherwise: '$SLUICE_LOG_LEVEL, else info' }), value: 'name' },
      registry: registryFlag,
      json: switchFlag('print a summary as JSON at the end'),
    },
  },
  lint: {
    description: 'check pipelines and their models without touching sources or sinks',
    arguments: [pipelines],
    flags: {
      schema: switchFlag('print the schema of the predictions instead, for who registers it by other means'),
      registry: registryFlag,
    },
  },
  test: {
    description: 'score the applications of *.test.yaml and compare',
    arguments: [pipelines],
    flags: { registry: registryFlag },
  },
} as const satisfies CommandSpecs;

// Flags of `serve` and related commands: `keys …`, `init`, `doctor`, `completion`.
import type { TArray, TString } from 'typebox';
import { LOGGING, text, toggle, whole } from '../../../config/options/describe-option.ts';
import { Type } from '../../../config/schema.ts';
import { SCOPES } from '../../../config/scopes.ts';
import { type CommandSpecs, type FlagsOf, registryFlag, SHELLS, switchFlag } from './command-spec.ts';

const config = { short: 'c', value: 'file', complete: 'file' } as const;
const keysFile = {
  schema: text('file of the keys', { default: 'keys.yaml' }),
  value: 'file',
  complete: 'file',
} as const;

export const SERVICE_COMMANDS = {
  serve: {
    description: 'serve predictions over HTTPS',
    flags: {
      config: { schema: text('YAML file; see docs/serve-config.md'), ...config },
      set: {
        schema: Type.Array(Type.String(), {
          default: [],
          description: 'override a setting of the file, such as limits.rows=1000',
        }) as TArray<TString> & { default: string[] },
        value: 'name=value',
      },
      port: { schema: whole('short for --set listen.port=n', [0, 65_535]) },
      registry: registryFlag,
      log_format: { schema: LOGGING.format({ otherwise: '$SLUICE_LOG_FORMAT, else log.format' }), value: 'name' },
      log_level: { schema: LOGGING.level({ otherwise: '$SLUICE_LOG_LEVEL, else log.level' }), value: 'name' },
      dev: switchFlag('development mode: loopback only, with a temporary certificate and API key'),
      cert_out: { schema: text('with --dev: write the certificate to this file, for clients to trust'), value: 'file' },
    },
  },
  'keys create': {
    description: 'create a key and print its token once',
    arguments: [{ name: 'name', description: 'name of the key, such as its user' }],
    flags: {
      file: keysFile,
      scopes: {
        schema: text(`comma-separated scopes out of ${SCOPES.join(',')}`, {
          default: 'predict,interpret,jobs,models:read',
        }),
        value: 'list',
      },
      models: { schema: text('ids of the models that the key may use', { otherwise: 'all' }), value: 'list' },
      days: {
        schema: Type.Number({
          exclusiveMinimum: 0,
          description: 'valid for this many days; default: until revoked',
        }),
      },
    },
  },
  'keys list': { description: 'names, scopes, models and expiry of the keys', flags: { file: keysFile } },
  'keys rotate': {
    description: 'create a new token for a key and print it once; the previous token works for a grace period',
    arguments: [{ name: 'name', description: 'name of the key' }],
    flags: {
      file: keysFile,
      grace: {
        schema: text('grace period of the previous token, such as 30m, 24h or 7d; 0: it stops working at once', {
          default: '24h',
        }),
        value: 'time',
      },
      days: {
        schema: Type.Number({
          exclusiveMinimum: 0,
          description: 'validity of the new token in days; default: as for the previous token',
        }),
      },
    },
  },
  'keys revoke': {
    description: 'remove a key with all its tokens',
    arguments: [{ name: 'name', description: 'name of the key' }],
    flags: { file: keysFile },
  },
  'audit verify': {
    description: 'check that the records of an audit log are unchanged, in order and complete',
    arguments: [{ name: 'files', description: 'files of one audit log', many: true, complete: 'file' }],
    flags: {
      head: {
        schema: text('hash of a record that must be present, from an audit_head line of the log'),
        value: 'sha256',
      },
      json: switchFlag('print the result as JSON'),
    },
  },
  init: {
    description: 'create a project: models, a pipeline with its test, service settings, systemd units, alert rules',
    arguments: [
      {
        name: 'folder',
        description: 'folder of the project; default: the current folder',
        optional: true,
        complete: 'folder',
      },
    ],
    flags: {},
  },
  doctor: {
    description: 'check this machine, the registry, its models, and the requirements of a configuration or pipeline',
    flags: {
      config: { schema: text('configuration file of serve'), ...config },
      pipeline: { schema: text('pipeline whose model and topics are checked'), value: 'file', complete: 'file' },
      registry: registryFlag,
      json: { schema: toggle('print the findings as JSON') },
    },
  },
  top: {
    description:
      'show what a service or pipeline does now, from its metrics: rows, requests, jobs, lag, rejects, memory',
    arguments: [{ name: 'url', description: 'address of the service, or of the metrics port of a pipeline' }],
    flags: {
      interval: { schema: whole('seconds between two measurements', [1, 3600], { default: 2 }) },
      once: switchFlag('print one measurement and exit'),
      ca: {
        schema: text('certificates (PEM) that sign the certificate of the service'),
        value: 'file',
        complete: 'file',
      },
    },
  },
  completion: {
    description: 'print the completion script of a shell',
    arguments: [{ name: 'shell', description: SHELLS.join(', '), choices: SHELLS }],
    flags: {},
  },
} as const satisfies CommandSpecs;

export type AuditVerifyFlags = FlagsOf<(typeof SERVICE_COMMANDS)['audit verify']>;
export type DoctorFlags = FlagsOf<(typeof SERVICE_COMMANDS)['doctor']>;
export type TopFlags = FlagsOf<(typeof SERVICE_COMMANDS)['top']>;
export type ServeFlags = FlagsOf<(typeof SERVICE_COMMANDS)['serve']>;
export type KeysCreateFlags = FlagsOf<(typeof SERVICE_COMMANDS)['keys create']>;
export type KeysListFlags = FlagsOf<(typeof SERVICE_COMMANDS)['keys list']>;
export type KeysRevokeFlags = FlagsOf<(typeof SERVICE_COMMANDS)['keys revoke']>;
export type KeysRotateFlags = FlagsOf<(typeof SERVICE_COMMANDS)['keys rotate']>;

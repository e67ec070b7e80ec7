// Builds a configuration. Flags override the environment, which overrides the file, which overrides the defaults.
import { readFile } from 'node:fs/promises';
import type { Static, TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { stringify } from 'yaml';
import { SluiceError } from '../core/errors.ts';
import { withoutDefaults } from './schema.ts';
import { parseYaml } from './yaml-document.ts';
import { formatProblem } from './yaml-problem.ts';

interface ConfigSources {
  /** YAML file. Errors in the file are reported as file:line:column. */
  file?: string;
  /** Environment variables: SLUICE_LIMITS__ROWS=5 sets limits.rows. Two underscores separate levels. */
  env?: Record<string, string | undefined>;
  /** Settings from the command line, such as `limits.rows=5`. */
  settings?: readonly string[];
}

const PREFIX = 'SLUICE_';
/** Variables that have the prefix but do not belong to the configuration. */
const NOT_CONFIG = new Set([
  'SLUICE_LOG_FORMAT',
  'SLUICE_LOG_LEVEL',
  'SLUICE_REGISTRY',
  'SLUICE_REQUIRE',
  'SLUICE_WRITE_DOCS',
]);

/** @throws SluiceError usage, listing every error */
export async function loadConfig<S extends TSchema>(schema: S, sources: ConfigSources): Promise<Static<S>> {
  let config: unknown = {};
  if (sources.file !== undefined) {
    let text: string;
    try {
      text = await readFile(sources.file, 'utf8');
    } catch (cause) {
      throw new SluiceError('usage', `${sources.file} cannot be read`, { cause });
    }
    const parsed = parseYaml(sources.file, text.trim() === '' ? '{}' : text, withoutDefaults(schema));
    if (!parsed.ok) throw new SluiceError('usage', parsed.problems.map(formatProblem).join('\n'));
    config = parsed.value;
  }
  const overrides: [string[], string, string][] = [];
  for (const [name, value] of Object.entries(sources.env ?? {})) {
    if (!name.startsWith(PREFIX) || value === undefined || NOT_CONFIG.has(name)) continue;
    const path = name.slice(PREFIX.length).toLowerCase().split('__');
    if (path[0] !== undefined && Object.hasOwn(propertiesOf(schema), path[0])) overrides.push([path, value, name]);
  }
  for (const setting of sources.settings ?? []) {
    const at = setting.indexOf('=');
    if (at < 1) throw new SluiceError('usage', `--set takes name=value, not ${setting}`);
    overrides.push([setting.slice(0, at).split('.'), setting.slice(at + 1), setting.slice(0, at)]);
  }
  for (const [path, value] of overrides) assign(config as Record<string, unknown>, path, value);
  const complete = Value.Default(schema, Value.Convert(schema, config));
  // Values that do not come from the file have no position, so their errors are reported with the path of the setting.
  const checked = parseYaml('settings', stringify(complete), schema);
  if (!checked.ok) {
    throw new SluiceError('usage', checked.problems.map((p) => `configuration: ${p.message}`).join('\n'));
  }
  return checked.value;
}

const propertiesOf = (schema: TSchema): Record<string, TSchema> =>
  (schema as { properties?: Record<string, TSchema> }).properties ?? {};

function assign(target: Record<string, unknown>, path: string[], value: string): void {
  const [head, ...rest] = path as [string, ...string[]];
  if (head === '__proto__') throw new SluiceError('usage', 'this setting does not exist');
  if (rest.length === 0) target[head] = value.startsWith('[') ? JSON.parse(value) : value;
  else {
    if (typeof target[head] !== 'object' || target[head] === null) target[head] = {};
    assign(target[head] as Record<string, unknown>, rest, value);
  }
}

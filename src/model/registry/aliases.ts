// aliases.yaml: alias → version.
import { formatProblem, type YamlProblem } from '../../config/yaml-problem.ts';
import { readYamlValue } from '../../config/yaml-value.ts';
import { SluiceError } from '../../core/errors.ts';

/** Versions as text. @throws SluiceError model_invalid with every fault found, each as file:line:column */
export async function readAliases(file: string, text: string): Promise<Record<string, string>> {
  const read = await readYamlValue(file, text);
  if (!read.ok) throw faulty(read.problems);
  const value = read.value ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) throw faulty(await faultsOf(file, text, null));
  const aliases: Record<string, string> = {};
  const wrong: string[] = [];
  for (const [alias, version] of Object.entries(value)) {
    if (typeof version === 'string' || Number.isInteger(version)) aliases[alias] = String(version);
    else wrong.push(alias);
  }
  if (wrong.length > 0) throw faulty(await faultsOf(file, text, wrong));
  return aliases;
}

/** Where the faults are. `aliases`: those that name no version; null: there is no map. */
async function faultsOf(file: string, text: string, aliases: readonly string[] | null): Promise<YamlProblem[]> {
  const { readYaml } = await import('../../config/yaml.ts');
  const read = readYaml(file, text);
  if (!read.ok) return read.problems;
  if (aliases === null) return [read.at(0, 'the document must be a map of alias to version')];
  const what = 'must name a version: a text or a whole number';
  return aliases.map((alias) => read.atPath([alias], `${alias} ${what}`, true));
}

const faulty = (problems: readonly YamlProblem[]): SluiceError =>
  new SluiceError('model_invalid', problems.map(formatProblem).join('\n'));

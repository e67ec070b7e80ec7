// aliases.yaml: alias → version.
import { formatProblem, readYaml, type YamlProblem } from '../../config/yaml.ts';
import { SluiceError } from '../../core/errors.ts';

/** Versions as text. @throws SluiceError model_invalid with every fault found, each as file:line:column */
export function readAliases(file: string, text: string): Record<string, string> {
  const read = readYaml(file, text);
  if (!read.ok) throw faulty(read.problems);
  const value = read.value ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw faulty([read.at(0, 'the document must be a map of alias to version')]);
  }
  const aliases: Record<string, string> = {};
  const problems: YamlProblem[] = [];
  for (const [alias, version] of Object.entries(value)) {
    if (typeof version === 'string' || Number.isInteger(version)) aliases[alias] = String(version);
    else problems.push(read.atPath([alias], `${alias} must name a version: a text or a whole number`, true));
  }
  if (problems.length > 0) throw faulty(problems);
  return aliases;
}

const faulty = (problems: readonly YamlProblem[]): SluiceError =>
  new SluiceError('model_invalid', problems.map(formatProblem).join('\n'));

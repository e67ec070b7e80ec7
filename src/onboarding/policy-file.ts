// The `--policy` file: decisions, scorecard and reason codes of a new version, in the format of model.yaml.
import { readFile } from 'node:fs/promises';
import { readYaml } from '../config/yaml.ts';
import { checkYaml } from '../config/yaml-document.ts';
import { formatProblem, type YamlProblem } from '../config/yaml-problem.ts';
import { didYouMean } from '../core/did-you-mean.ts';
import { SluiceError } from '../core/errors.ts';
import { fileFault } from '../core/file-system.ts';
import { type Manifest, type Policy, PolicySchema } from '../model/package/manifest.ts';

export interface PolicyFile {
  policy: Policy;
  /** Creates a problem with a position in the file, given the path of the key. */
  problemAt: (path: readonly string[], message: string) => YamlProblem;
}

const refused = (problems: readonly YamlProblem[]): SluiceError =>
  new SluiceError('usage', problems.map(formatProblem).join('\n'));

/** Reads and validates the file. @throws SluiceError usage, which lists every error as file:line:column */
export async function readPolicy(file: string): Promise<PolicyFile> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new SluiceError('usage', `${file} cannot be read: ${fileFault(cause)}`, { cause });
  });
  const read = readYaml(file, text);
  if (!read.ok) throw refused(read.problems);
  const checked = checkYaml(read, PolicySchema);
  if (!checked.ok) throw refused(checked.problems);
  return { policy: checked.value, problemAt: (path, message) => read.atPath(path, message, true) };
}

/**
 * Checks what the schema cannot express: the decisions require a binary model, and reason codes require existing
 * columns.
 * @throws SluiceError usage, which lists every error as file:line:column
 */
export function assertPolicyFits({ policy, problemAt }: PolicyFile, { task, columns }: Manifest): void {
  const names = columns.map((c) => c.name);
  const problems: YamlProblem[] = [];
  for (const key of ['scorecard', 'decisions'] as const) {
    if (policy[key] && task !== 'binary') problems.push(problemAt([key], `${key}: needs a model with task binary, but the task of the model is ${task}`)); // biome-ignore format: one line
  }
  const seen = new Set<string>();
  for (const [i, { name }] of (policy.decisions ?? []).entries()) {
    if (seen.has(name)) problems.push(problemAt(['decisions', String(i)], `decisions: ${name} occurs twice`));
    seen.add(name);
  }
  for (const column of Object.keys(policy.reasons ?? {})) {
    if (names.includes(column)) continue;
    const message = `reasons: the model has no column ${column}${didYouMean(column, names)}`;
    problems.push(problemAt(['reasons', column], message));
  }
  if (problems.length > 0) throw refused(problems);
}

// Loads the manifest of a model package (the folder of one version), and checks that its contents are consistent.
import path from 'node:path';
import { formatProblem } from '../../config/yaml-problem.ts';
import { SluiceError } from '../../core/errors.ts';
import { categoriesOf, readCategoryFiles } from './category-files.ts';
import type { ColumnSpec, Manifest } from './manifest.ts';
import { type ModelPackage, readPackageFile } from './model-package.ts';
import { assertCovered, assertWithinLimits, beginHashing, LOCK } from './package-hash.ts';
import { checkLock } from './package-lock.ts';
import { readModelYaml } from './read-model-yaml.ts';

/** The version as text, as in references and responses. */
export const versionOf = (manifest: Manifest): string => String(manifest.version);

const MANIFEST = 'model.yaml';

/**
 * Reads a package folder: checks the list of files, hashes every file, and parses the same bytes of `model.yaml` that
 * were hashed. Files that are read later must still have these hashes.
 * @throws SluiceError model_invalid, listing every error as file:line:column | model_hash_mismatch
 */
export async function loadPackage(folder: string): Promise<ModelPackage> {
  const file = path.join(folder, MANIFEST);
  const { kept, hashed } = await beginHashing(folder, [MANIFEST, LOCK]);
  const [lock, bytes] = [kept.get(LOCK), kept.get(MANIFEST)];
  // Other threads hash large files at the same time.
  const parsed = await (bytes && readModelYaml(file, bytes.toString()));
  const { sha256, files } = await hashed;
  if (lock !== undefined) checkLock(lock, files, folder);
  if (parsed === undefined) throw new SluiceError('model_invalid', `${file} cannot be read`);
  if (!parsed.ok) throw new SluiceError('model_invalid', parsed.problems.map(formatProblem).join('\n'));
  const ref = `${parsed.value.id}:${versionOf(parsed.value)}`;
  assertCovered({ manifest: parsed.value, ref });
  assertWithinLimits(parsed.value, files);
  const twice = parsed.value.columns.filter((c) => saidTwice(c)).map((c) => c.name);
  if (twice.length > 0)
    throw new SluiceError(
      'model_invalid',
      `${file}: columns.${twice[0]}: set only one of codes, codes_file, values and values_file`,
    );
  const content = (name: string) => readPackageFile({ folder, ref, sha256, files, locked: false }, name);
  const manifest = await readCategoryFiles(parsed.value, content);
  const problems = inconsistencies(manifest);
  if (problems.length > 0) throw new SluiceError('model_invalid', problems.map((p) => `${file}: ${p}`).join('\n'));
  return { folder: path.resolve(folder), manifest, ref, sha256, files, locked: lock !== undefined };
}

/** Whether a column has both codes and values. Only one of them is allowed, whether in model.yaml or in a file. */
const saidTwice = (c: ColumnSpec): boolean =>
  [c.codes, c.values, c.codes_file, c.values_file].filter((said) => said !== undefined).length > 1;

/** Checks what the schema cannot express: names must refer to existing entries, and kinds must fit the inputs. */
function inconsistencies(m: Manifest): string[] {
  const problems: string[] = [];
  const columns = new Map(m.columns.map((c) => [c.name, c]));
  if (columns.size < m.columns.length) problems.push('columns: a name occurs twice');
  if (m.outcome !== undefined && columns.has(m.outcome))
    problems.push(`columns: ${m.outcome} is the outcome, which must not be a column of the model`);
  for (const c of m.columns) {
    if (categoriesOf(c) && c.kind !== 'category') problems.push(`columns.${c.name}: only a category has codes`);
    if (c.unseen === 'value' && c.unseen_value === undefined)
      problems.push(`columns.${c.name}: unseen: value needs unseen_value`);
    const as = c.missing?.as;
    if ((as === 'value' || as === 'category') && c.missing?.value === undefined) {
      problems.push(`columns.${c.name}: missing.as: ${as} needs missing.value`);
    }
  }
  const used = new Set<string>();
  for (const i of m.inputs) {
    if ((i.column === undefined) === (i.columns === undefined)) {
      problems.push(`inputs.${i.name}: set either column or columns`);
      continue;
    }
    for (const name of i.columns ?? [i.column!]) {
      const c = columns.get(name);
      used.add(name);
      if (!c) problems.push(`inputs.${i.name}: no column ${name}`);
      else if (i.type !== 'string' && (c.kind === 'text' || (c.kind === 'category' && !categoriesOf(c)?.codes))) {
        problems.push(`inputs.${i.name}: column ${name} has no codes, so it cannot be ${i.type}`);
      }
    }
  }
  for (const name of columns.keys()) if (!used.has(name)) problems.push(`columns.${name}: no input uses it`);
  if (m.task === 'binary' || m.task === 'multiclass') {
    if (!m.classes || m.classes.length < 2) problems.push(`task ${m.task} needs classes`);
    if (m.onnx.probabilities === undefined) problems.push(`task ${m.task} needs onnx.probabilities`);
    if (m.task === 'binary' && m.classes) {
      if (m.positive_class === undefined) problems.push('task binary needs positive_class');
      else if (!m.classes.includes(m.positive_class)) problems.push('positive_class is not one of classes');
    }
  } else if (m.onnx.value === undefined) problems.push(`task ${m.task} needs onnx.value`);
  if (m.task !== 'binary' && (m.scorecard || m.decisions)) problems.push('scorecard and decisions need task binary');
  return problems;
}

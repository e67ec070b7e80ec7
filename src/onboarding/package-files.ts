// The files of a package: draws samples of rows, writes the folder of a proposed package, and adds the package to a registry.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { formatYaml } from '../config/yaml.ts';
import { Random } from '../core/random.ts';
import { withCategoryFiles } from '../model/package/category-files.ts';
import { loadPackage } from '../model/package/load-package.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { SIGNATURE } from '../model/package/package-hash.ts';
import { sealPackage, writeBeside } from '../model/package/package-lock.ts';
import type { Mover } from '../model/registry/journal.ts';
import type { Registry } from '../model/registry/registry.ts';
import type { Proposal } from './draft.ts';
import { reportMarkdown } from './report-card.ts';

/** Draws a reproducible random sample. */
export function pickRows<R>(rows: readonly R[], n: number): R[] {
  const random = new Random();
  random.seed(1, 0);
  const left = [...rows];
  const picked: R[] = [];
  while (picked.length < n && left.length > 0)
    picked.push(...left.splice(Math.floor(random.uniform() * left.length), 1));
  return picked;
}

/** Formats rows as CSV with the columns of the manifest. `fields[i]`: field index of column i. */
export function toCsv(manifest: Manifest, rows: readonly (readonly string[])[], fields: readonly number[]): string {
  const lines = [manifest.columns.map((c) => c.name), ...rows.map((r) => fields.map((f) => r[f]!))];
  return lines.map((l) => `${csvLine(l)}\n`).join('');
}

export const csvLine = (cells: readonly string[]): string => cells.map(quoted).join(',');

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

/**
 * Writes model.yaml, the files of the proposal, the report card (Markdown and JSON) and a lock file that covers all
 * these files.
 */
export async function writePackage(folder: string, proposal: Proposal): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const [name, content] of proposal.files) await writeFile(path.join(folder, name), content);
  await writeFile(path.join(folder, 'report.json'), `${JSON.stringify(proposal.report, null, 1)}\n`);
  await writeFile(path.join(folder, 'report.md'), reportMarkdown(proposal.report));
  const { manifest, files } = withCategoryFiles(proposal.manifest);
  for (const [name, content] of files) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), content);
  }
  await writeFile(path.join(folder, 'model.yaml'), formatYaml(manifest));
  await sealPackage(folder);
}

/**
 * Adds a proposal to a registry, after checking that the package can be loaded. `sign` creates the signature of the
 * package. Returns the version.
 * @throws SluiceError version_exists | model_invalid
 */
export async function addProposal(
  registry: Registry,
  proposal: Proposal,
  { by, sign }: { by?: Mover; sign?: ((model: ModelPackage) => string) | undefined } = {},
): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-package-'));
  try {
    await writePackage(folder, proposal);
    const model = await loadPackage(folder);
    const { manifest } = model;
    if (sign) await writeBeside(folder, SIGNATURE, sign(model));
    return await registry.add(manifest.id, String(manifest.version), folder, by);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

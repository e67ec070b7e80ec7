// `model new-version`: a copy of a package with other decisions, scorecard and reason codes, checked and sealed again.
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { formatYaml } from '../config/yaml.ts';
import { SluiceError } from '../core/errors.ts';
import { withoutCategories } from '../model/package/category-files.ts';
import { loadPackage } from '../model/package/load-package.ts';
import { type Manifest, PolicySchema } from '../model/package/manifest.ts';
import { type ModelPackage, readPackageFile } from '../model/package/model-package.ts';
import { LOCK, SIGNATURE } from '../model/package/package-hash.ts';
import { sealPackage } from '../model/package/package-lock.ts';
import { reportIn } from './audit.ts';
import { type Difference, manifestDifferences } from './compare-packages.ts';
import { assertPolicyFits, type PolicyFile } from './policy-file.ts';
import { Findings, type Report, reportMarkdown, selfTestText } from './report-card.ts';
import { UNMAPPED, verifyPackage, warnUnmapped } from './verify.ts';

/** Files that are written again instead of copied. */
const OWN: readonly string[] = ['model.yaml', 'report.json', 'report.md', LOCK, SIGNATURE];

interface NewVersion {
  model: ModelPackage;
  report: Report;
  differences: readonly Difference[];
}

/**
 * Writes the package of a version into an empty folder. Copies the files of `from`, replaces the policy in model.yaml,
 * adds the origin to the report card, and writes the lock.
 * @throws SluiceError usage (the policy does not fit the model) | self_test_failed | model_invalid |
 * model_hash_mismatch
 */
export async function writeNewVersion(
  folder: string,
  from: ModelPackage,
  { version, policy, reason }: { version: string; policy: PolicyFile; reason?: string },
): Promise<NewVersion> {
  assertPolicyFits(policy, from.manifest);
  for (const { name } of from.files.filter((f) => !OWN.includes(f.name))) {
    const file = path.join(folder, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, await readPackageFile(from, name));
  }
  const manifest = withPolicy(from.manifest, policy, version);
  await writeFile(path.join(folder, 'model.yaml'), formatYaml(withoutCategories(manifest)));
  const checked = await verifyPackage(await loadPackage(folder));
  if (checked.selfTest && !checked.selfTest.passed) {
    throw new SluiceError('self_test_failed', `${from.ref} no longer passes its own self-test: ${selfTestText(checked.selfTest)}`); // biome-ignore format: one line
  }
  const told = { model: from.ref, package_sha256: from.sha256, ...(reason === undefined ? {} : { reason }) };
  const report: Report = { ...reportOf(await reportIn(from), checked, manifest), from: told };
  await writeFile(path.join(folder, 'report.json'), `${JSON.stringify(report, null, 1)}\n`);
  await writeFile(path.join(folder, 'report.md'), reportMarkdown(report));
  await sealPackage(folder);
  return { model: await loadPackage(folder), report, differences: manifestDifferences(from.manifest, manifest) };
}

function withPolicy(manifest: Manifest, { policy }: PolicyFile, version: string): Manifest {
  const kept = Object.entries(manifest).filter(([key]) => !Object.hasOwn(PolicySchema.properties, key));
  const number = /^[1-9]\d{0,14}$/.test(version) ? Number(version) : version;
  return { ...(Object.fromEntries(kept) as Manifest), version: number, ...policy };
}

/** The report card. It keeps the earlier findings, except findings about the previous reason codes. */
function reportOf(before: Partial<Report> | null, checked: Report, manifest: Manifest): Report {
  if (!before?.findings) return checked;
  const findings = new Findings();
  warnUnmapped(manifest, findings);
  const kept = before.findings.filter((f) => !f.text.startsWith(UNMAPPED));
  const { model, checked: at, sluice, selfTest, batchInvariance, speed } = checked;
  return { ...checked, ...before, model, checked: at, sluice, selfTest, batchInvariance, speed, findings: [...kept, ...findings.list] }; // biome-ignore format: one line
}

// Detects inputs already scored by an identical run, by content hash rather than name or mtime.

import type { KeyObject } from 'node:crypto';
import { storedSize, storedText } from '../../connectors/stored-bytes.ts';
import { keyIdOf } from '../../core/dsse.ts';
import { SluiceError } from '../../core/errors.ts';
import { manifestNameOf } from '../../core/file-names.ts';
import { named, words } from '../../core/log.ts';
import { ONNXRUNTIME_VERSION, VERSION } from '../../core/version.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { canonicalJson } from '../../proof/canonical-json.ts';
import { unseal } from '../../proof/envelope.ts';
import { type Predicate, type ProvenFile, predicateOf } from '../../proof/statement.ts';
import { isObject } from '../../storage/providers.ts';
import { ControlTotals } from '../control-totals.ts';
import type { RunPlugin } from '../plugin.ts';
import type { RunStep } from '../same-files.ts';
import type { FileRunSpec } from '../spec.ts';
import { digestOf, isProven, optionsOf } from './manifest-content.ts';

interface RunIntended {
  spec: FileRunSpec;
  model: ModelPackage;
  /** Key that signs manifests; null if manifests are not signed. */
  key: KeyObject | null;
}

/**
 * Returns the manifest of the earlier run; null if the input must be scored. Compares the run with the manifest of the
 * output: package, versions, options, gate, signer and input must be equal. Output and rejects file must be those of the
 * manifest: files by their size, because they are published together with it and `sluice verify` finds later changes;
 * objects by their content, because an interrupted publication may have replaced only the manifest. Control totals,
 * which the manifest does not contain, must fit the input: if they do not, scoring it reports the difference.
 * @throws SluiceError control_total_mismatch: a control file is missing or has no totals
 */
async function earlierRun(
  run: RunIntended,
  { input, output }: RunStep,
  list: string | null,
): Promise<Predicate | null> {
  if (!isProven(run.spec, output)) return null;
  const manifest = await manifestOf(output.name, run.key);
  if (!manifest || !isSameRun(manifest, run, optionsOf(run.spec, input, output))) return null;
  if (!(await isAsPublished(output.name, manifest.output))) return null;
  const listed = list !== null && (await storedSize(list)) !== null;
  if (manifest.list ? list === null || !(await isAsPublished(list, manifest.list)) : listed) return null;
  if (!(await hasContent(input.name, manifest.input))) return null;
  if (!input.totals) return manifest;
  const totals = await ControlTotals.open(input.totals, input.name, input.delimiter);
  return totals.fit(manifest.rows.read, manifest.input.stored.sha256) ? manifest : null;
}

/** Returns null if the manifest is missing, damaged, or signed by another key. */
async function manifestOf(output: string, key: KeyObject | null): Promise<Predicate | null> {
  try {
    const text = await storedText(manifestNameOf(output));
    if (text === null) return null;
    const { statement, signedBy } = unseal(text, null);
    return signedBy.join() === (key ? keyIdOf(key) : '') ? predicateOf(statement) : null;
  } catch (error) {
    if (error instanceof SluiceError && error.code !== 'storage_unavailable') return null;
    throw error;
  }
}

function isSameRun({ model, made_by, options }: Predicate, run: RunIntended, intended: Predicate['options']): boolean {
  const { sluice, node, onnxruntime } = made_by;
  const versions = sluice === VERSION && node === process.versions.node && onnxruntime === ONNXRUNTIME_VERSION;
  if (!versions || canonicalJson(options) !== canonicalJson(intended)) return false;
  return model.ref === run.model.ref && model.package_sha256 === run.model.sha256;
}

const hasSize = async (file: string, { stored }: ProvenFile): Promise<boolean> =>
  (await storedSize(file)) === stored.bytes;

/** Compares the sizes first, because they cost less. */
const hasContent = async (file: string, proven: ProvenFile): Promise<boolean> =>
  (await hasSize(file, proven)) && (await digestOf(file)).sha256 === proven.stored.sha256;

const isAsPublished = (file: string, proven: ProvenFile): Promise<boolean> =>
  isObject(file) ? hasContent(file, proven) : hasSize(file, proven);

/** Skips inputs of a pattern that an earlier run already scored. */
export const alreadyScoredPlugin: RunPlugin = {
  plan({ spec, context, model, several, rejects, signKey: key, result, distinguishing }) {
    const mayResume = spec.resume === 'always' || spec.resume === 'asked';
    // A rejects file that all inputs share must be written by one run.
    if (!several || spec.shard || rejects.ofAll || !mayResume) return null;
    // With such options, a run may write other files, which the manifest does not list.
    if (Object.keys(distinguishing).length > 0) return null;
    return async ({ input, output }) => {
      const earlier = await earlierRun({ spec, model, key }, { input, output }, rejects.pathFor(input));
      if (!earlier) return null;
      result.inputsDoneBefore++;
      result.rejectedBefore += earlier.rows.rejected;
      const says = words`${named(input.name)} was already scored with the same package and options; skipping`;
      context.log('info', 'input_done_before', says);
      return 'skip';
    };
  },
};

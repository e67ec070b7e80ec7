// Caches the verdict on a model and its compiled form on disk, so that later processes can start without ONNX Runtime.
import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { deserialize, serialize } from 'node:v8';
import { KeptResults } from '../../core/kept-results.ts';
import { ONNXRUNTIME_VERSION } from '../../core/version.ts';
import { columnsKey, type ModelPackage, modelHash } from '../../model/package/model-package.ts';
import type { EnginePolicy, Verdict } from '../evaluate/choose-evaluator.ts';
import type { NativePlan } from '../evaluate/native/native-plan.ts';

const KIND = 'verdict';
/** Must be incremented when the format of plans changes within a release. */
const RULES = '3';
/** Maximum size of a cached verdict with its plan in bytes. A larger entry would evict all other entries. */
const MOST_BYTES = 64 * 1024 * 1024;
/** Number of leading bytes that suffice to identify a processor. */
const CPUINFO_BYTES = 4096;

/** A cached verdict. */
export interface KeptVerdict {
  readonly verdict: Verdict;
  readonly plan: NativePlan | null;
}

/** Whether verdicts are cached at all. If so, a comparison and its preparation may be unnecessary. */
export const mayBeKept = (): boolean => KeptResults.ofUser()?.has(KIND) ?? false;

/** The cache entry for the verdict on one model. */
export class VerdictPlace {
  readonly #kept: KeptResults;
  readonly #name: string;

  private constructor(kept: KeptResults, name: string) {
    this.#kept = kept;
    this.#name = name;
  }

  /**
   * The cache entry. The name of the entry covers everything on which a verdict depends: the model file, its input
   * mapping, the versions and the processor. Null if verdicts are not cached.
   * @throws SluiceError model_invalid | model_hash_mismatch
   */
  static of(model: ModelPackage, policy: EnginePolicy): VerdictPlace | null {
    const kept = KeptResults.ofUser();
    if (!kept) return null;
    const { onnx, inputs } = model.manifest;
    const { node, v8 } = process.versions;
    const versions = [RULES, node, v8, ONNXRUNTIME_VERSION, process.platform, process.arch, own(), processor()];
    const fed = JSON.stringify([versions, policy, onnx, inputs, columnsKey(model)]);
    return new VerdictPlace(kept, KeptResults.nameOf(KIND, fed, modelHash(model)));
  }

  async read(): Promise<KeptVerdict | null> {
    const content = await this.#kept.read(this.#name);
    // The cache has verified the digest, so `write` wrote this content.
    return content && (deserialize(content) as KeptVerdict);
  }

  async write(found: KeptVerdict): Promise<void> {
    const content = serialize(found);
    if (content.length <= MOST_BYTES) await this.#kept.write(this.#name, content);
  }
}

/**
 * In a source checkout, the time of the last code change; otherwise empty. In a checkout, a version number covers many
 * states of the code.
 */
function own(): string {
  if (!import.meta.url.endsWith('.ts')) return '';
  const folders = ['..', '../../wasm'].map((folder) => fileURLToPath(new URL(folder, import.meta.url)));
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`),
  );
  return String(Math.max(...files.map((file) => statSync(file).mtimeMs)));
}

/** Model and features of the processor, which determine the code that ONNX Runtime executes. */
function processor(): string {
  try {
    const file = openSync('/proc/cpuinfo', 'r');
    try {
      const bytes = Buffer.alloc(CPUINFO_BYTES);
      const text = bytes.toString('latin1', 0, readSync(file, bytes));
      return text.split('\n').filter((line) => /^(model name|flags|Features|CPU part)\b/.test(line)).slice(0, 3).join('\n'); // biome-ignore format: one line
    } finally {
      closeSync(file);
    }
  } catch {
    return cpus()[0]?.model ?? '';
  }
}

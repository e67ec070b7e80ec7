// Compares outputs of recorded runs with their manifests. Outputs are checked one at a time, and again only after a
// file changed.
import { stat } from 'node:fs/promises';
import { inBackground } from '../../../core/async.ts';
import { epochMs, sleep } from '../../../core/clock.ts';
import { manifestNameOf } from '../../../core/file-names.ts';
import { verifyOutput } from '../../../runs/checks/verify-output.ts';
import { manifestHash, type RecordedOutput } from '../../../runs/run-records.ts';

/**
 * `verified`: output and rejects file match the manifest. `changed`: they do not match. `replaced`: a later run wrote
 * to the same path. `missing`: this server cannot read the output. `none`: the run wrote no manifest. `checking`: the
 * check has not finished.
 */
type OutputState = 'verified' | 'changed' | 'replaced' | 'missing' | 'none' | 'checking' | 'not_checked';

export interface OutputCheck {
  state: OutputState;
  /** Messages about the first differences. */
  findings: string[];
  checked: string | null;
}

const MOST_CHECKS = 1000;
const MOST_FINDINGS = 20;
/** A request waits for checks up to this time in ms; then it reports `checking`. */
const WAIT_MS = 1500;

interface Known {
  check: OutputCheck;
  /** Identity of the files that were checked. */
  seal: string;
}

export class OutputChecks {
  readonly #known = new Map<string, Known>();
  readonly #running = new Map<string, Promise<void>>();
  #turn: Promise<void> = Promise.resolve();

  /** The last result. Does not read the output again. */
  last(output: RecordedOutput): OutputCheck {
    if (output.manifestSha256 === null) return plain('none');
    return this.#known.get(keyOf(output))?.check ?? plain('not_checked');
  }

  /** Checks outputs. Waits only a short time for the results. */
  async check(outputs: readonly RecordedOutput[]): Promise<OutputCheck[]> {
    const checks = outputs.map((output) => this.#start(output));
    await Promise.race([Promise.all(checks), sleep(WAIT_MS)]);
    return outputs.map((output) => {
      const last = this.last(output);
      return this.#running.has(keyOf(output)) ? plain('checking') : last;
    });
  }

  #start(output: RecordedOutput): Promise<void> {
    if (output.manifestSha256 === null) return Promise.resolve();
    const key = keyOf(output);
    const running = this.#running.get(key);
    if (running) return running;
    const begun = this.#turn.then(() => this.#read(key, output)).finally(() => this.#running.delete(key));
    this.#running.set(key, begun);
    this.#turn = begun.catch(() => {});
    inBackground('checking an output', () => begun);
    return begun.catch(() => {});
  }

  async #read(key: string, output: RecordedOutput): Promise<void> {
    const seal = await sealOf(output.path);
    if (seal !== null && this.#known.get(key)?.seal === seal) return;
    if (this.#known.size >= MOST_CHECKS) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(key, { check: await checkOf(output), seal: seal ?? '' });
  }
}

const keyOf = ({ path, manifestSha256 }: RecordedOutput): string => `${manifestSha256} ${path}`;

const plain = (state: OutputState, findings: string[] = []): OutputCheck => ({
  state,
  findings,
  checked: state === 'checking' || state === 'not_checked' ? null : new Date(epochMs()).toISOString(),
});

/**
 * A text that changes whenever the output or its manifest changes; null if unknown, so that the output is read again.
 */
async function sealOf(output: string): Promise<string | null> {
  const found = await Promise.all([output, manifestNameOf(output)].map((name) => stat(name).catch(() => null)));
  if (found.includes(null)) return null;
  return found.map((file) => `${file!.dev}:${file!.ino}:${file!.size}:${file!.mtimeMs}:${file!.ctimeMs}`).join();
}

async function checkOf({ path, manifestSha256 }: RecordedOutput): Promise<OutputCheck> {
  const found = await manifestHash(path);
  if (found === null) return plain('missing', ['the manifest cannot be read at its path']);
  if (found !== manifestSha256) return plain('replaced');
  const { whole, findings } = await verifyOutput({ output: path, input: null, list: null, package: null, key: null });
  if (whole) return plain('verified');
  const missing = findings.some(({ file, kind }) => file === 'output' && kind === 'missing');
  const texts = findings.slice(0, MOST_FINDINGS).map(({ text }) => text);
  return plain(missing ? 'missing' : 'changed', texts);
}

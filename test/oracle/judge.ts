// Judges combinations: runs each through its entry point and compares what comes out with the oracle.
import path from 'node:path';
import { type Case, MODELS, type ModelName } from './combinations.ts';
import { differences, reservedOf } from './compare.ts';
import { PACKAGES, runCase, World } from './entries.ts';
import { answer, OracleModel, type Question } from './oracle.ts';
import { type StoredInput, storedInput } from './stored-input.ts';

const NAMES = {
  csv: 'by the input',
  tsv: 'by the input',
  json: 'by the row',
  ndjson: 'by the row',
  parquet: 'at once',
  arrow: 'at once',
} as const;

/** What the oracle is asked about a combination. */
export const questionOf = (c: Case, { input, declared }: StoredInput, model: OracleModel): Question => ({
  model,
  input,
  declared,
  passthrough: c.passthrough,
  failOnInvalid: c.onInvalid === 'fail',
  allowEmpty: c.entry === 'library' || (c.allowEmpty && c.entry !== 'http'),
  reserved: reservedOf(c, model),
  names: NAMES[c.output],
  refusesOutcome: c.entry === 'http',
  ...(c.maxRejects === null ? {} : { maxRejects: c.maxRejects }),
});

export class Judge {
  readonly folder: string;
  readonly #world: World;
  readonly #models: ReadonlyMap<ModelName, OracleModel>;
  /** Effects of all applications seen so far, which have to be the same everywhere. */
  readonly #effects = new Map<string, string>();

  private constructor(folder: string, models: ReadonlyMap<ModelName, OracleModel>) {
    this.folder = folder;
    this.#world = new World(folder);
    this.#models = models;
  }

  /** `folder`: for the files of runs. */
  static async open(folder: string): Promise<Judge> {
    const models = new Map<ModelName, OracleModel>();
    for (const name of Object.keys(MODELS) as ModelName[]) {
      const registry = PACKAGES[name === 'typed-columns' ? 1 : 0]!;
      models.set(name, await OracleModel.open(path.join(registry, name, '1')));
    }
    return new Judge(folder, models);
  }

  /** What is wrong, in words; empty: nothing is. */
  async differences(c: Case): Promise<string[]> {
    const stored = storedInput(c);
    const model = this.#models.get(c.model)!;
    const expected = await answer(questionOf(c, stored, model));
    const outcome = await runCase(c, stored, this.#world);
    return differences({ c, model, expected, outcome, effects: this.#effects });
  }

  close(): Promise<void> {
    return this.#world.close();
  }
}

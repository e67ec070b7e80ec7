// What the references of a remote registry meant last, on disk, so that a restart during an outage changes nothing.
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';

export interface KeptPackage {
  stamp: string;
  /** Where the cache keeps it. */
  sha256: string;
}

/** One model. */
export interface Meaning {
  /** Reference → version; null: the store does not have the model, it comes from behind it. */
  references: Record<string, string | null>;
  packages: Record<string, KeptPackage>;
}

export class Meanings {
  readonly #folder: string;
  readonly #known = new Map<string, Meaning>();

  constructor(cacheFolder: string, address: string) {
    const name = createHash('sha256').update(address).digest('hex').slice(0, 32);
    this.#folder = path.join(cacheFolder, 'meanings', name);
  }

  /** `id` has been checked by parseReference, so it is a safe name of a file. */
  async of(id: string): Promise<Meaning> {
    const known = this.#known.get(id);
    if (known) return known;
    const meaning = await readMeaning(path.join(this.#folder, `${id}.json`));
    const raced = this.#known.get(id);
    if (raced) return raced;
    this.#known.set(id, meaning);
    return meaning;
  }

  async keep(id: string, reference: string, version: string | null): Promise<void> {
    const meaning = await this.of(id);
    if (meaning.references[reference] === version) return;
    meaning.references[reference] = version;
    await this.#write(id, meaning);
  }

  async keepPackage(id: string, version: string, kept: KeptPackage): Promise<void> {
    const meaning = await this.of(id);
    meaning.packages[version] = kept;
    await this.#write(id, meaning);
  }

  async #write(id: string, meaning: Meaning): Promise<void> {
    const partial = path.join(this.#folder, `.${randomUUID()}.partial`);
    try {
      await mkdir(this.#folder, { recursive: true });
      await writeFile(partial, `${JSON.stringify(meaning)}\n`);
      await rename(partial, path.join(this.#folder, `${id}.json`));
    } catch (cause) {
      await rm(partial, { force: true });
      throw new SluiceError('registry_unavailable', `${this.#folder} cannot be written`, { cause });
    }
  }
}

/** A file that is missing or damaged is as if nothing had been resolved before. */
async function readMeaning(file: string): Promise<Meaning> {
  const none = (): Meaning => ({ references: Object.create(null), packages: Object.create(null) });
  try {
    const { references, packages } = JSON.parse(await readFile(file, 'utf8')) as Partial<Meaning>;
    const meaning = none();
    Object.assign(meaning.references, references);
    Object.assign(meaning.packages, packages);
    return meaning;
  } catch {
    return none();
  }
}

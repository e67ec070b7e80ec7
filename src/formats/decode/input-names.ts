// Maps the column names of an input to model names and back, as declared, and determines ignored columns.
import { SluiceError } from '../../core/errors.ts';
import { type DeclaredColumns, withoutBlanks } from '../../core/input-declaration.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';

const NOTHING: DeclaredColumns = { names: null, rename: {}, ignore: [], constants: {} };

export class InputNames {
  /** Model columns that the input lacks because they have a declared constant value. */
  readonly constants: DeclaredColumns['constants'];
  readonly #rename: Readonly<Record<string, string>>;
  /** Maps an input name to a model or output name. */
  readonly #meaning: ReadonlyMap<string, string>;
  readonly #ignored: ReadonlySet<string>;
  readonly #ignoresRest: boolean;

  constructor({ rename, ignore, constants }: DeclaredColumns = NOTHING) {
    this.constants = constants;
    this.#rename = rename;
    this.#meaning = new Map(Object.entries(rename).map(([name, there]) => [there, name]));
    this.#ignored = new Set(ignore === '*' ? [] : ignore);
    this.#ignoresRest = ignore === '*';
  }

  /** The input name of a column. */
  inInput(name: string): string {
    return Object.hasOwn(this.#rename, name) ? this.#rename[name]! : name;
  }

  /**
   * The model or output name of an input name; null: the column is ignored. `used`: names that the model or passthrough
   * uses.
   */
  meaning(name: string, used: ReadonlySet<string>): string | null {
    if (this.#ignored.has(name)) return null;
    const meant = this.#meaning.get(name) ?? name;
    return this.#ignoresRest && !used.has(meant) ? null : meant;
  }

  /** Names that are declared as ignored individually, not through `*`. */
  get ignored(): readonly string[] {
    return [...this.#ignored];
  }

  /** The declared renames, as pairs of column and input name, whose input name is not a cell of the header row. */
  unmatched(cells: readonly string[], trim: boolean): [string, string][] {
    const there = new Set(trim ? cells.map(withoutBlanks) : cells);
    return Object.entries(this.#rename).filter(([, inInput]) => !there.has(inInput));
  }

  isConstant(name: string): boolean {
    return Object.hasOwn(this.constants, name);
  }

  /**
   * The model or output names of the cells of a header row, or of declared names that replace a header row. null: the
   * column is ignored.
   */
  ofHeader(cells: readonly string[], used: ReadonlySet<string>, trim: boolean): (string | null)[] {
    return cells.map((cell) => this.meaning(trim ? withoutBlanks(cell) : cell, used));
  }
}

/** The columns that the input must provide: all except declared constants. */
export const columnsOfInput = <C extends { readonly name: string }>(columns: readonly C[], names: InputNames): C[] =>
  columns.filter(({ name }) => !names.isConstant(name));

/**
 * Rejects declarations that contradict themselves or the model. Reports all problems at once.
 * @throws SluiceError usage
 */
export function checkDeclared(
  declared: DeclaredColumns,
  readers: readonly ColumnReader[],
  passthrough: readonly string[] | '*',
): void {
  const names = new InputNames(declared);
  const model = new Set(readers.map(({ name }) => name));
  const faults: string[] = [];
  for (const name of Object.keys(declared.constants)) {
    if (!model.has(name)) faults.push(`constants: ${name} is not a model column`);
    if (Object.hasOwn(declared.rename, name))
      faults.push(`constants: ${name} is also renamed: declare only one of them`);
  }
  for (const name of Object.keys(declared.rename)) {
    const known = model.has(name) || passthrough === '*' || passthrough.includes(name);
    if (!known) faults.push(`rename: ${name} is neither a model column nor passed through`);
    if (names.meaning(names.inInput(name), new Set([name])) === null) {
      faults.push(`ignore: the input column for ${name} is both ignored and renamed`);
    }
  }
  if (readers.length > 0 && readers.every(({ name }) => names.isConstant(name))) {
    faults.push('constants: every model column is constant, so applications do not matter');
  }
  if (faults.length > 0) throw new SluiceError('usage', faults.join('\n'));
}

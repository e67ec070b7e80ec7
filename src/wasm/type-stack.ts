// The validation algorithm of the WebAssembly specification (appendix A.3), run while a function is emitted.
// It checks operands against the types on the stack, so that a mistake throws in the line that emits the instruction.

import type { Signature, WasmType } from './instructions.ts';

/** In unreachable code, any type is accepted. */
const ANY = 'any';
type StackType = WasmType | typeof ANY;

/**
 * The error for a function that WebAssembly would reject, or that breaks a stricter rule of this emitter. The stack
 * trace leads to the code that emits the function.
 */
export class InvalidKernel extends Error {
  override readonly name = 'InvalidKernel';
}

/** A block that is being emitted, which is a target of branches. */
export interface Label {
  readonly name: string;
  readonly kind: 'function' | 'block' | 'loop' | 'if' | 'else';
  /** Number of enclosing blocks; 0 for the body of a function. */
  readonly depth: number;
  /** Result type of the block. */
  readonly result: WasmType | null;
  /** Number of types on the stack below the block. */
  readonly height: number;
  /** Whether the remaining block is unreachable, so that operands of any type are accepted. */
  unreachable: boolean;
}

export class TypeStack {
  readonly #function: string;
  readonly #types: StackType[] = [];
  readonly #open: Label[] = [];

  constructor(functionName: string) {
    this.#function = functionName;
  }

  /** Number of open blocks, without the body of the function. */
  get depth(): number {
    return this.#open.length - 1;
  }

  /** Pops the operands of an instruction and pushes its result. */
  apply({ name, takes, gives }: Signature): void {
    for (let i = takes.length - 1; i >= 0; i--) this.take(takes[i]!, name, takes);
    if (gives !== null) this.#types.push(gives);
  }

  push(type: WasmType): void {
    this.#types.push(type);
  }

  /** Pops the top type. `whole`: all operands of the instruction, for the message. */
  take(wanted: StackType, instruction: string, whole: readonly StackType[] = [wanted]): StackType {
    const block = this.#open[this.#open.length - 1]!;
    if (this.#types.length === block.height) {
      if (block.unreachable) return wanted;
      return this.refuse(`${instruction} takes ${list(whole)}, but an operand is missing`);
    }
    const found = this.#types[this.#types.length - 1]!;
    if (found !== wanted && found !== ANY && wanted !== ANY) {
      return this.refuse(`${instruction} takes ${list(whole)}, but finds ${found} where it takes ${wanted}`);
    }
    this.#types.pop();
    return found === ANY ? wanted : found;
  }

  /** Applies `select`, which pops two operands of the same type and a number. */
  select(): void {
    const takes = [ANY, ANY, 'i32'] as const;
    this.take('i32', 'select', takes);
    const second = this.take(ANY, 'select', takes);
    this.#types.push(this.take(second, 'select', takes));
  }

  open(name: string, kind: Label['kind'], result: WasmType | null): Label {
    const label = { name, kind, depth: this.#open.length, result, height: this.#types.length, unreachable: false };
    this.#open.push(label);
    return label;
  }

  /** Closes the innermost block, which must leave exactly its result on the stack. */
  close(label: Label): void {
    const { kind, result, height, name } = label;
    if (this.#open.at(-1) !== label) this.refuse(`${kind} ${name} ends while another block is open`);
    const what = `the end of ${kind} ${name}`;
    if (result !== null) this.take(result, what);
    if (this.#types.length > height) this.refuse(`${what} leaves ${list(this.#types.slice(height))} on the stack`);
    this.#open.pop();
    if (result !== null) this.#types.push(result);
  }

  /** Checks a branch to the end of a block, or to the beginning of a loop. Returns the number of blocks in between. */
  branch(label: Label, instruction: string): number {
    if (this.#open[label.depth] !== label) this.refuse(`${instruction} to ${label.name}, which is not open here`);
    if (label.kind !== 'loop' && label.result !== null) {
      this.take(label.result, instruction);
      this.#types.push(label.result);
    }
    return this.#open.length - 1 - label.depth;
  }

  /**
   * Checks an unconditional branch. The remaining block is then unreachable. This is stricter than WebAssembly, which
   * drops further values on the stack: here they are treated as a mistake.
   */
  jump(label: Label): number {
    const depth = this.branch(label, 'br');
    const block = this.#open[this.#open.length - 1]!;
    const kept = label.kind !== 'loop' && label.result !== null ? 1 : 0;
    if (this.#types.length - kept > block.height)
      this.refuse(`br to ${label.name} leaves ${list(this.#types.slice(block.height))} on the stack`);
    this.#types.length = block.height;
    block.unreachable = true;
    return depth;
  }

  refuse(what: string): never {
    const within = this.#open.slice(1).map((b) => `${b.kind} ${b.name}`.trim());
    const where = within.length === 0 ? '' : ` in ${within.join(' > ')}`;
    throw new InvalidKernel(`${this.#function}: ${what}; the stack has ${list(this.#types)}${where}`);
  }
}

const list = (types: readonly StackType[]): string => `[${types.join(' ')}]`;

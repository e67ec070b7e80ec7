// Emits one function of a kernel: instructions are encoded and type-checked as they are added.
import {
  EXTRACT,
  type LaneShape,
  MEMORY,
  type MemoryOp,
  PLAIN,
  type PlainOp,
  SELECT,
  TYPE_CODES,
  type WasmType,
} from './instructions.ts';
import { type Label, TypeStack } from './type-stack.ts';

/** Number of bytes for which space is reserved before a number or an opcode is written. */
const SPARE = 32;

const DOUBLE = new Float64Array(1);
const DOUBLE_BYTES = new Uint8Array(DOUBLE.buffer);

export class ByteList {
  #bytes: Uint8Array<ArrayBuffer>;
  length = 0;

  constructor(capacity = 64) {
    this.#bytes = new Uint8Array(capacity + SPARE);
  }

  #room(bytes: number): void {
    if (this.length + bytes <= this.#bytes.length) return;
    const larger = new Uint8Array((this.length + bytes) * 2);
    larger.set(this.#bytes);
    this.#bytes = larger;
  }

  byte(byte: number): this {
    this.#room(SPARE);
    this.#bytes[this.length++] = byte;
    return this;
  }

  /** Appends a few bytes. */
  put(bytes: readonly number[]): this {
    this.#room(SPARE + bytes.length);
    for (let i = 0; i < bytes.length; i++) this.#bytes[this.length++] = bytes[i]!;
    return this;
  }

  append(bytes: Uint8Array): this {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.length);
    this.length += bytes.length;
    return this;
  }

  /** Appends an unsigned 32-bit number as LEB128. */
  unsigned(n: number): this {
    this.#room(SPARE);
    for (; n > 127; n >>>= 7) this.#bytes[this.length++] = (n & 127) | 128;
    this.#bytes[this.length++] = n;
    return this;
  }

  /** Appends a signed 32-bit number as LEB128. */
  signed(n: number): this {
    this.#room(SPARE);
    for (; n < -64 || n > 63; n >>= 7) this.#bytes[this.length++] = (n & 127) | 128;
    this.#bytes[this.length++] = n & 127;
    return this;
  }

  /** Appends a signed 64-bit number as LEB128. */
  signed64(n: bigint): this {
    this.#room(SPARE);
    for (; BigInt.asIntN(32, n) !== n; n >>= 7n) this.#bytes[this.length++] = Number(n & 127n) | 128;
    return this.signed(Number(n));
  }

  /** Appends a double in little-endian order, which modules use throughout. */
  float64(n: number): this {
    DOUBLE[0] = n;
    return this.append(DOUBLE_BYTES);
  }

  /** Appends a text preceded by its length. */
  text(text: string): this {
    const bytes = Buffer.from(text);
    return this.unsigned(bytes.length).append(bytes);
  }

  /** Appends another list preceded by its length. */
  nested(list: ByteList): this {
    return this.unsigned(list.length).append(list.view());
  }

  /** A view of the bytes so far. It is valid until further bytes are appended. */
  view(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.length);
  }
}

/** A parameter or a local variable of one function. */
export interface Local {
  readonly name: string;
  readonly type: WasmType;
  readonly index: number;
  readonly owner: WasmFunction;
}

export type Op = PlainOp | 'select';

const NO_RESULT = 0x40;
const END = 0x0b;
const ELSE = 0x05;

/** Cache of vector constants with sixteen equal bytes. */
const SAME: (readonly number[])[] = [];

/**
 * A function that is being emitted. Every method appends instructions and returns this object. A method throws
 * InvalidKernel if an instruction does not match the types on the stack; the stack trace shows the line that emits the
 * instruction.
 */
export class WasmFunction<P extends string = string> {
  readonly name: string;
  readonly params: Readonly<Record<P, Local>>;
  /** The parameters, followed by the local variables. */
  readonly variables: Local[] = [];
  /** Names of blocks, in the order in which they are opened. */
  readonly blocks: string[] = [];
  #paramCount = 0;
  readonly #stack: TypeStack;
  readonly #body: Label;
  readonly #code = new ByteList();
  #ended = false;

  /** `params`: names and types, in order. */
  constructor(name: string, params: Readonly<Record<P, WasmType>>) {
    this.name = name;
    this.#stack = new TypeStack(name);
    this.#body = this.#stack.open(name, 'function', null);
    const entries = Object.entries<WasmType>(params).map(([n, type]) => [n, this.local(type, n)]);
    this.params = Object.fromEntries(entries) as Record<P, Local>;
    this.#paramCount = entries.length;
  }

  get paramTypes(): WasmType[] {
    return this.variables.slice(0, this.#paramCount).map((v) => v.type);
  }

  /** Declares a local variable with the initial value 0. */
  local(type: WasmType, name: string): Local {
    if (this.variables.some((v) => v.name === name)) this.#stack.refuse(`there are two locals ${name}`);
    const local = { name, type, index: this.variables.length, owner: this };
    this.variables.push(local);
    return local;
  }

  /** Declares local variables of one type. */
  locals<N extends string>(type: WasmType, ...names: readonly N[]): Record<N, Local> {
    return Object.fromEntries(names.map((n) => [n, this.local(type, n)])) as Record<N, Local>;
  }

  op(...names: readonly Op[]): this {
    for (const name of names) {
      if (name === 'select') {
        this.#stack.select();
        this.#code.byte(SELECT);
      } else {
        const instruction = PLAIN[name];
        this.#stack.apply(instruction);
        this.#code.put(instruction.code);
      }
    }
    return this;
  }

  get(...locals: readonly Local[]): this {
    for (const local of locals) {
      this.#own(local, 'local.get');
      this.#stack.push(local.type);
      this.#code.byte(0x20).unsigned(local.index);
    }
    return this;
  }

  set(local: Local): this {
    this.#own(local, 'local.set');
    this.#stack.take(local.type, `local.set ${local.name}`);
    this.#code.byte(0x21).unsigned(local.index);
    return this;
  }

  tee(local: Local): this {
    this.#own(local, 'local.tee');
    this.#stack.take(local.type, `local.tee ${local.name}`);
    this.#stack.push(local.type);
    this.#code.byte(0x22).unsigned(local.index);
    return this;
  }

  #own(local: Local, instruction: string): void {
    if (local.owner !== this) this.#stack.refuse(`${instruction} ${local.name}, a local of ${local.owner.name}`);
  }

  i32(n: number): this {
    this.#stack.push('i32');
    this.#code.byte(0x41).signed(n | 0);
    return this;
  }

  i64(n: bigint): this {
    this.#stack.push('i64');
    this.#code.byte(0x42).signed64(BigInt.asIntN(64, n));
    return this;
  }

  f64(n: number): this {
    this.#stack.push('f64');
    this.#code.byte(0x44).float64(n);
    return this;
  }

  /** Pushes a vector of sixteen equal bytes. */
  bytes(byte: number): this {
    SAME[byte] ??= new Array<number>(16).fill(byte);
    return this.#vector(SAME[byte]);
  }

  /** Pushes a vector of eight 16-bit numbers. */
  shorts(...numbers: readonly number[]): this {
    if (numbers.length !== 8) this.#stack.refuse(`a vector of 8 numbers is made of ${numbers.length}`);
    return this.#vector(numbers.flatMap((n) => [n & 255, (n >> 8) & 255]));
  }

  /** Pushes a vector whose bits are all 1. */
  ones(): this {
    return this.bytes(255);
  }

  #vector(bytes: readonly number[]): this {
    this.#stack.push('v128');
    this.#code.byte(0xfd).byte(0x0c).put(bytes);
    return this;
  }

  /** Extracts number `index` of a vector. */
  lane(of: LaneShape, index: number): this {
    const instruction = EXTRACT[of];
    if (!(index >= 0 && index < instruction.lanes)) this.#stack.refuse(`${instruction.name} has no lane ${index}`);
    this.#stack.apply(instruction);
    this.#code.put(instruction.code).byte(index);
    return this;
  }

  /** Emits a load or a store. The address (for a store, followed by the value) must be on the stack. */
  memory(op: MemoryOp, offset = 0): this {
    const instruction = MEMORY[op];
    if (!(Number.isInteger(offset) && offset >= 0)) this.#stack.refuse(`${op} at the offset ${offset}`);
    this.#stack.apply(instruction);
    this.#code.put(instruction.code).byte(instruction.align).unsigned(offset);
    return this;
  }

  /** Adds `n` to a local variable. */
  bump(local: Local, n: number): this {
    return this.get(local).i32(n).op('i32.add').set(local);
  }

  /** Emits a loop: runs the body, and repeats while `again` leaves a non-zero number on the stack. */
  repeat(body: () => void, again: () => void): this {
    this.#code.byte(0x03).byte(NO_RESULT);
    const label = this.#open('', 'loop', null);
    body();
    again();
    this.#stack.take('i32', 'br_if');
    this.#code.byte(0x0d).byte(0).byte(END);
    this.#stack.close(label);
    return this;
  }

  /**
   * Emits a conditional: pops a number and runs `then` if it is not zero, else `otherwise`. If `result` is given, both
   * must push a value of this type.
   */
  when(then: () => void, otherwise?: () => void, result: WasmType | null = null): this {
    this.#stack.take('i32', 'if');
    this.#code.byte(0x04).byte(result ? TYPE_CODES[result] : NO_RESULT);
    const label = this.#open('', 'if', otherwise ? result : null);
    then();
    this.#stack.close(label);
    if (otherwise) {
      this.#code.byte(ELSE);
      if (result) this.#stack.take(result, 'else');
      const other = this.#stack.open('', 'else', result);
      otherwise();
      this.#stack.close(other);
    } else if (result) this.#stack.refuse(`an if without an else leaves no ${result}`);
    this.#code.byte(END);
    return this;
  }

  /**
   * Emits a block. `leave` and `leaveIf` jump to its end if they get the label that is passed to `body`. If `result` is
   * given, the body must push a value of this type.
   */
  block(name: string, body: (label: Label) => void, result: WasmType | null = null): this {
    this.#code.byte(0x02).byte(result ? TYPE_CODES[result] : NO_RESULT);
    const label = this.#open(name, 'block', result);
    body(label);
    this.#stack.close(label);
    this.#code.byte(END);
    return this;
  }

  #open(name: string, kind: Label['kind'], result: WasmType | null): Label {
    this.blocks.push(name);
    return this.#stack.open(name, kind, result);
  }

  leave(label: Label): this {
    this.#code.byte(0x0c).unsigned(this.#stack.jump(label));
    return this;
  }

  /** Pops a number n and leaves the block of label n, or the block `otherwise` if n is too large. */
  leaveAt(labels: readonly Label[], otherwise: Label): this {
    this.#stack.take('i32', 'br_table');
    const depths = labels.map((label) => this.#stack.branch(label, 'br_table'));
    this.#code.byte(0x0e).unsigned(depths.length);
    for (const depth of depths) this.#code.unsigned(depth);
    this.#code.unsigned(this.#stack.jump(otherwise));
    return this;
  }

  /** Pops a number and leaves the block if the number is not zero. */
  leaveIf(label: Label): this {
    this.#stack.take('i32', 'br_if');
    this.#code.byte(0x0d).unsigned(this.#stack.branch(label, 'br_if'));
    return this;
  }

  /** Ends the function. The stack must be empty. */
  end(): this {
    this.#stack.close(this.#body);
    this.#code.byte(END);
    this.#ended = true;
    return this;
  }

  /** The function body as encoded in the code section. */
  body(): ByteList {
    if (!this.#ended) this.#stack.refuse('end() is missing');
    const locals = this.variables.slice(this.#paramCount);
    const inner = new ByteList(this.#code.length + locals.length * 2).unsigned(locals.length);
    for (const { type } of locals) inner.byte(1).byte(TYPE_CODES[type]);
    return inner.append(this.#code.view());
  }
}

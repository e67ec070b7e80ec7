// Finds small changes of the sources, each of which should make a test fail. Types are stripped first, so that only code that runs changes.
import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import path from 'node:path';
import { type AnyNode, type Expression, parse } from 'acorn';

export interface Mutant {
  file: string;
  /** Line of the change; the first one is 1. */
  line: number;
  /** Offsets of the changed text in the source. */
  start: number;
  end: number;
  before: string;
  after: string;
}

type Change = Pick<Mutant, 'start' | 'end' | 'after'>;

const OPERATORS: Record<string, string> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '<<': '>>',
  '>>': '<<',
  '>>>': '<<',
  '&': '|',
  '|': '&',
  '&&': '||',
  '||': '&&',
};

/** Calls that only write messages. */
const MESSAGES = /(?:^|[.#])(?:console|log|logger|warn|info|debug|trace|stderr)\b/;
/** Calls whose texts explain an error. */
const ERRORS = /Error$|^(?:refuse|fail|reject|withAdvice|contradiction)$/;
/** Constants that are sizes and times: one more or less changes no result. */
const QUANTITY = /(?:MS|BYTES|SECONDS|MB|KIB|MIB|SIZE|CAPACITY)$/;

const isNode = (value: unknown): value is AnyNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';

function childrenOf(node: AnyNode): AnyNode[] {
  return Object.values(node).flatMap((value: unknown) =>
    Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : [],
  );
}

const isText = (node: AnyNode): boolean =>
  node.type === 'TemplateLiteral' || (node.type === 'Literal' && typeof node.value === 'string');
/** The `+` of texts has no opposite. */
const joinsTexts = (node: AnyNode): boolean =>
  isText(node) || (node.type === 'BinaryExpression' && (joinsTexts(node.left) || joinsTexts(node.right)));

class Finder {
  readonly #code: string;
  readonly changes: Change[] = [];

  constructor(code: string) {
    this.#code = code;
  }

  #textOf = ({ start, end }: AnyNode): string => this.#code.slice(start, end);

  #add({ start, end }: AnyNode, after: string): void {
    this.changes.push({ start, end, after });
  }

  #operator({ left, right, operator }: { left: AnyNode; right: AnyNode; operator: string }): void {
    const after = OPERATORS[operator];
    if (after === undefined) return;
    // Comments between the operands may hold the operator, too.
    const start = left.end + this.#code.slice(left.end, right.start).indexOf(operator);
    this.changes.push({ start, end: start + operator.length, after });
  }

  #negate(test: Expression): void {
    if (test.type === 'UnaryExpression' && test.operator === '!') this.#add(test, this.#textOf(test.argument));
    // The opposite of an equality is a change of its operator.
    else if (test.type !== 'BinaryExpression' || !/^[!=]==$/.test(test.operator)) {
      this.#add(test, `!(${this.#textOf(test)})`);
    }
  }

  #empty(block: AnyNode | null | undefined): void {
    // One statement is one that can be dropped, or one that returns.
    if (block?.type === 'BlockStatement' && block.body.length > 1) this.#add(block, '{}');
  }

  #literal(node: AnyNode & { type: 'Literal' }, quantity: boolean): void {
    const { value } = node;
    if (typeof value === 'boolean') this.#add(node, String(!value));
    else if (typeof value === 'number' && !quantity) this.#add(node, String(value + 1));
    else if (typeof value === 'bigint' && !quantity) this.#add(node, `${value + 1n}n`);
  }

  #isMessage(node: AnyNode): boolean {
    if (node.type !== 'CallExpression' && node.type !== 'NewExpression') return false;
    return MESSAGES.test(this.#textOf(node.callee));
  }

  #isError(node: AnyNode): boolean {
    if (node.type !== 'CallExpression' && node.type !== 'NewExpression') return false;
    return ERRORS.test(this.#textOf(node.callee));
  }

  #call({ arguments: [a, b, ...more] }: { arguments: AnyNode[] }): void {
    if (!a || !b || more.length > 0) return;
    const isName = ({ type }: AnyNode): boolean => type === 'Identifier' || type === 'MemberExpression';
    if (!isName(a) || !isName(b) || this.#textOf(a) === this.#textOf(b)) return;
    this.changes.push({
      start: a.start,
      end: b.end,
      after: `${this.#textOf(b)}, ${this.#textOf(a)}`,
    });
  }

  #statement(node: AnyNode): void {
    if (node.type === 'ExpressionStatement') {
      const call = node.expression.type === 'AwaitExpression' ? node.expression.argument : node.expression;
      if (call.type === 'CallExpression' && call.callee.type !== 'Super') this.#add(node, ';');
    } else if (node.type === 'IfStatement') {
      this.#negate(node.test);
      this.#empty(node.consequent);
      this.#empty(node.alternate);
      const only = node.consequent.type === 'BlockStatement' ? node.consequent.body : [node.consequent];
      const isEarly = only.length === 1 && only[0]!.type === 'ReturnStatement' && !node.alternate;
      if (isEarly && !/\bawait\b/.test(this.#textOf(node))) this.#add(node, ';');
    } else if (node.type === 'TryStatement') {
      this.#empty(node.handler?.body);
      this.#empty(node.finalizer);
    } else if (/^(?:For|While|DoWhile)/.test(node.type) && 'body' in node) this.#empty(node.body as AnyNode);
  }

  /** `quantity`: inside of a constant that is a size or a time. */
  visit(node: AnyNode, quantity = false): void {
    if (this.#isMessage(node) || node.type === 'ImportDeclaration') return;
    // Which error is thrown, and when, changes with the statements around it; its text is for people.
    if (node.type === 'ThrowStatement') return;
    if (node.type === 'ExpressionStatement' && this.#isMessageStatement(node)) return;
    if (node.type === 'VariableDeclarator' && node.id.type === 'Identifier') {
      quantity ||= QUANTITY.test(node.id.name);
    }
    this.#statement(node);
    if (node.type === 'BinaryExpression') {
      if (node.operator !== '+' || !(joinsTexts(node.left) || joinsTexts(node.right))) this.#operator(node);
    } else if (node.type === 'LogicalExpression') this.#operator(node);
    else if (node.type === 'ConditionalExpression') this.#negate(node.test);
    else if (node.type === 'CallExpression' || node.type === 'NewExpression') this.#call(node);
    else if (node.type === 'Literal') this.#literal(node, quantity);
    const skipsTexts = this.#isError(node);
    for (const child of childrenOf(node)) {
      if (!(skipsTexts && (isText(child) || joinsTexts(child)))) this.visit(child, quantity);
    }
  }

  #isMessageStatement(node: AnyNode & { type: 'ExpressionStatement' }): boolean {
    const call = node.expression.type === 'AwaitExpression' ? node.expression.argument : node.expression;
    return this.#isMessage(call);
  }
}

const parsed = (code: string) => parse(code, { ecmaVersion: 'latest', sourceType: 'module' });

/** The mutants of one source text, in the order of the text. */
export function mutantsOf(file: string, source: string): Mutant[] {
  // Types become blanks: offsets stay those of the source.
  const finder = new Finder(stripTypeScriptTypes(source));
  finder.visit(parsed(stripTypeScriptTypes(source)));
  return finder.changes
    .map((change) => ({
      file,
      line: source.slice(0, change.start).split('\n').length,
      before: source.slice(change.start, change.end),
      ...change,
    }))
    .sort((a, b) => a.start - b.start || a.end - b.end);
}

export const mutated = (source: string, { start, end, after }: Mutant): string =>
  source.slice(0, start) + after + source.slice(end);

/** Whether Node can still read the source: `??` next to `||` needs parentheses, for example. */
export function canParse(source: string): boolean {
  try {
    parsed(stripTypeScriptTypes(source));
    return true;
  } catch {
    return false;
  }
}

/** The mutants of all sources whose path matches. */
export function allMutants(only: RegExp | null = null): Mutant[] {
  return readdirSync('src', { recursive: true, encoding: 'utf8' })
    .map((name) => path.posix.join('src', name.replaceAll(path.sep, '/')))
    .filter((file) => file.endsWith('.ts') && (only?.test(file) ?? true))
    .sort()
    .flatMap((file) => mutantsOf(file, readFileSync(file, 'utf8')));
}

/** Folders of these have folders of their own: a mutant counts for `formats/decode`, not for `formats`. */
const DISTRICTS = new Set(['doors', 'doors/http', 'connectors', 'formats', 'inference', 'io', 'model']);

export function folderOf(file: string): string {
  const parts = path.posix.dirname(file).split('/').slice(1);
  let folder = parts[0] ?? '.';
  for (const part of parts.slice(1)) {
    if (!DISTRICTS.has(folder)) break;
    folder += `/${part}`;
  }
  return folder;
}

/** Numbers in [0, 1) that a seed decides (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface SampleSize {
  /** Mutants of all folders together; each mutant has the same chance. */
  count?: number;
  /** Instead: mutants of every folder. */
  each?: number;
  seed: number;
}

/** Mutants that can be parsed, in random order. */
export function sample(mutants: readonly Mutant[], { count = 0, each = 0, seed }: SampleSize): Mutant[] {
  const random = randomOf(seed);
  const left = mutants.map((mutant) => ({ mutant, key: random() })).sort((a, b) => a.key - b.key);
  const perFolder = new Map<string, number>();
  const chosen: Mutant[] = [];
  for (const { mutant } of left) {
    const folder = folderOf(mutant.file);
    const taken = perFolder.get(folder) ?? 0;
    if (each > 0 ? taken >= each : chosen.length >= count) continue;
    if (!canParse(mutated(readFileSync(mutant.file, 'utf8'), mutant))) continue;
    perFolder.set(folder, taken + 1);
    chosen.push(mutant);
  }
  return chosen;
}

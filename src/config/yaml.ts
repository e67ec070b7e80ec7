// Reads YAML files as values with positions. The time is linear in the length of the text, whatever the text contains.
import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  Parser,
  type ScalarTag,
  stringify,
  visit,
} from 'yaml';
import type { YamlProblem } from './yaml-problem.ts';

export interface YamlDocument {
  ok: true;
  value: unknown;
  /** Creates a problem at an offset of the text. */
  at: (offset: number, message: string) => YamlProblem;
  /**
   * Creates a problem at the value with this path. If the value does not exist, uses the innermost existing value on
   * the path. `ofKey`: at the last key instead of its value.
   */
  atPath: (path: readonly string[], message: string, ofKey?: boolean) => YamlProblem;
}

type ReadYaml = YamlDocument | { ok: false; problems: YamlProblem[] };

/** Maximum nesting depth of collections. The library is recursive, and a stack overflow would report no position. */
const MOST_DEPTH = 100;
const MOST_ALIASES = 1000;
/** Maximum number of values. A value that an alias repeats counts again. */
const MOST_VALUES = 1_000_000;
/** Maximum number of errors to report. A text of commas has an error per comma. */
const MOST_PROBLEMS = 100;

interface YamlReading {
  /** Reads every value as text, with the characters that the file has. */
  asText?: boolean;
}

interface Fault {
  offset: number;
  message: string;
}

/** Reads `0230` as text, because the number 230 may be another category. YAML 1.1 and 1.2 disagree about its value. */
const LEADING_ZEROS: ScalarTag = {
  tag: 'tag:yaml.org,2002:str',
  default: true,
  test: /^[-+]?0[0-9]/,
  resolve: (text) => text,
};

/**
 * Parses YAML 1.2 (core schema), rejects duplicate keys, and limits aliases. Keys are always read as text: YAML writers
 * do not quote `008:`, and a category must not lose its zeros. Numbers with leading zeros are text for the same reason.
 */
export function readYaml(file: string, text: string, { asText = false }: YamlReading = {}): ReadYaml {
  const counter = new LineCounter();
  const at = (offset: number, message: string): YamlProblem => {
    const { line, col } = counter.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col), message };
  };
  const refused = (faults: Fault[]): ReadYaml => {
    faults.sort((a, b) => a.offset - b.offset);
    const problems = faults.slice(0, MOST_PROBLEMS).map(({ offset, message }) => at(offset, message));
    const more = faults.length - problems.length;
    if (more > 0) problems.push(at(faults[MOST_PROBLEMS]!.offset, `and ${more} more errors from this line on`));
    return { ok: false, problems };
  };
  const { tokens, deep } = parsed(text, counter);
  if (deep !== null) return refused([{ offset: deep, message: `nested more than ${MOST_DEPTH} levels deep` }]);
  // `parseDocument` is not used, because it formats its errors for display. Each error then contains a copy of its
  // line, which may be the whole text.
  const composer = new Composer({
    uniqueKeys: false,
    strict: true,
    stringKeys: true,
    merge: true,
    ...(asText ? { schema: 'failsafe' } : {}),
    customTags: (tags) => [LEADING_ZEROS, ...tags],
  });
  const [first, second] = composer.compose(tokens, true, text.length);
  const document = first!;
  const errors = document.errors.map((e) => ({ offset: e.pos[0], message: e.message.split('\n')[0] ?? e.message }));
  const faults = [
    ...errors,
    ...repeatedKeys(document).map((offset) => ({ offset, message: 'Map keys must be unique' })),
    ...(second ? [{ offset: second.range[0], message: 'a second document: the file must have one' }] : []),
  ];
  if (faults.length > 0) return refused(faults);
  const excess = excessOf(document);
  if (excess) return refused([excess]);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: -1 });
  } catch (error) {
    return { ok: false, problems: [at(0, error instanceof Error ? error.message : String(error))] };
  }
  const contents = document.contents as Node | null;
  return {
    ok: true,
    value,
    at,
    atPath: (path, message, ofKey = false) => at(offsetOf(contents, path, ofKey), message),
  };
}

/** The tokens of a text. `deep`: offset of the first collection that is nested too deeply; null if there is none. */
function parsed(text: string, counter: LineCounter): { tokens: CST.Token[]; deep: number | null } {
  const parser = new Parser(counter.addNewLine);
  counter.addNewLine(0);
  const tokens: CST.Token[] = [];
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) tokens.push(token);
    // Stops here, because the parser would close the open collections recursively.
    const open = parser.stack;
    if (open.length <= 2 * MOST_DEPTH) continue;
    const collections = open.filter((token) => 'items' in token);
    if (collections.length > MOST_DEPTH) return { tokens, deep: collections[MOST_DEPTH]!.offset };
  }
  for (const token of parser.end()) tokens.push(token);
  return { tokens, deep: tooDeep(tokens) };
}

/** Offset of the first collection that is nested too deeply; otherwise null. */
function tooDeep(tokens: readonly CST.Token[]): number | null {
  const open: [CST.Token, number][] = tokens.map((token): [CST.Token, number] => [token, 0]).reverse();
  for (let next = open.pop(); next; next = open.pop()) {
    const [token, depth] = next;
    if (token.type === 'document') {
      if (token.value) open.push([token.value, depth]);
    } else if ('items' in token) {
      if (depth >= MOST_DEPTH) return token.offset;
      for (let i = token.items.length - 1; i >= 0; i--) {
        const { key, value } = token.items[i]!;
        if (value) open.push([value, depth + 1]);
        if (key) open.push([key, depth + 1]);
      }
    }
  }
  return null;
}

/** The first alias that is undefined, that exceeds the maximum number of aliases, or that repeats too many values. */
function excessOf(document: Document): Fault | null {
  const sizes = new Map<string, number>();
  let aliases = 0;
  let excess: Fault | null = null;
  const sizeOf = (node: unknown): number => {
    if (excess) return 0;
    if (isPair(node)) return sizeOf(node.key) + sizeOf(node.value);
    let size = 1;
    if (isAlias(node)) {
      const repeated = sizes.get(node.source);
      const offset = node.range?.[0] ?? 0;
      if (repeated === undefined)
        excess = { offset, message: 'the alias refers to an anchor that is not defined above it' };
      else if (++aliases > MOST_ALIASES) excess = { offset, message: `more than ${MOST_ALIASES} aliases` };
      return repeated ?? 0;
    }
    if (isCollection(node)) {
      for (const item of node.items) {
        size += sizeOf(item);
        if (size > MOST_VALUES && !excess) {
          const at = isPair(item) ? (item.key as Node | null) : (item as Node | null);
          excess = { offset: at?.range?.[0] ?? node.range?.[0] ?? 0, message: TOO_MANY_VALUES };
        }
      }
    }
    const anchor = (node as Node | null)?.anchor;
    if (anchor !== undefined) sizes.set(anchor, size);
    return size;
  };
  sizeOf(document.contents);
  return excess;
}

const TOO_MANY_VALUES = `the aliases expand to more than ${MOST_VALUES.toLocaleString('en')} values`;

/**
 * The offsets of duplicate keys. The library itself would compare each key with all previous keys, which takes minutes
 * for 100,000 keys.
 */
function repeatedKeys(document: Document): number[] {
  const offsets: number[] = [];
  visit(document, {
    Map(_, map) {
      const seen = new Set<unknown>();
      for (const { key } of map.items) {
        const name = isScalar(key) ? key.value : key;
        if (seen.has(name)) offsets.push((key as Node | null)?.range?.[0] ?? map.range?.[0] ?? 0);
        seen.add(name);
      }
    },
  });
  return offsets;
}

function offsetOf(node: Node | null, path: readonly string[], ofKey: boolean): number {
  let current = node;
  let offset = current?.range?.[0] ?? 0;
  for (const [depth, key] of path.entries()) {
    if (isMap(current)) {
      const pair = (current.items as Pair[]).find((p) => String(isScalar(p.key) ? p.key.value : p.key) === key);
      if (!pair) return offset;
      const keyNode = pair.key as Node | null;
      if (ofKey && depth === path.length - 1) return keyNode?.range?.[0] ?? offset;
      current = pair.value as Node | null;
      offset = current?.range?.[0] ?? keyNode?.range?.[0] ?? offset;
    } else if (isCollection(current)) {
      current = current.items[Number(key)] as Node | null;
      offset = current?.range?.[0] ?? offset;
    } else return offset;
  }
  return offset;
}

/**
 * Formats a value as YAML that `readYaml` can read. Texts that look like numbers or keywords are quoted; small maps are
 * written on one line.
 */
export function formatYaml(value: unknown): string {
  return stringify(value, { lineWidth: 0, defaultStringType: 'PLAIN', aliasDuplicateObjects: false });
}

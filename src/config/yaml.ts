// YAML files as values, with the places of what stands in them.
import { isMap, isScalar, LineCounter, type Node, parseDocument, stringify } from 'yaml';

export interface Problem {
  file: string;
  line: number;
  column: number;
  message: string;
}

/** `file:line:column message`, the form editors and people jump to. */
export const formatProblem = (p: Problem): string => `${p.file}:${p.line}:${p.column} ${p.message}`;

export type Validated<T> = { ok: true; value: T } | { ok: false; problems: Problem[] };

export type ReadYaml =
  | {
      ok: true;
      value: unknown;
      contents: Node | null;
      at: (offset: number, message: string) => Problem;
      /** A problem at a key of the outermost map. */
      atKey: (key: string, message: string) => Problem;
    }
  | { ok: false; problems: Problem[] };

/**
 * YAML 1.2 core schema, duplicate keys refused, aliases bounded. Keys are the text that stands there: YAML writers leave
 * `008:` unquoted, and a category must not lose its zeros.
 */
export function readYaml(file: string, text: string): ReadYaml {
  const counter = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: counter,
    uniqueKeys: true,
    strict: true,
    stringKeys: true,
    merge: true,
  });
  const at = (offset: number, message: string): Problem => {
    const { line, col } = counter.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col), message };
  };
  if (document.errors.length > 0) {
    return { ok: false, problems: document.errors.map((e) => at(e.pos[0], e.message.split('\n')[0] ?? e.message)) };
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    return { ok: false, problems: [at(0, error instanceof Error ? error.message : String(error))] };
  }
  const contents = document.contents as Node | null;
  const atKey = (key: string, message: string): Problem => {
    const pairs = isMap(contents) ? contents.items : [];
    const found = pairs.map((p) => p.key).find((k) => isScalar(k) && String(k.value) === key);
    return at((found as Node | undefined)?.range?.[0] ?? 0, message);
  };
  return { ok: true, value, contents, at, atKey };
}

/** A value as YAML that `readYaml` reads back: texts that look like numbers or words are quoted, small maps stay on a line. */
export function formatYaml(value: unknown): string {
  return stringify(value, { lineWidth: 0, defaultStringType: 'PLAIN', aliasDuplicateObjects: false });
}

// YAML files as values, with the places of what stands in them.
import {
  type Document,
  isCollection,
  isMap,
  isScalar,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  stringify,
  visit,
} from 'yaml';
import type { YamlProblem } from './yaml-problem.ts';

export interface YamlDocument {
  ok: true;
  value: unknown;
  /** A problem at an offset of the text. */
  at: (offset: number, message: string) => YamlProblem;
  /** A problem at the value under these keys, or at the innermost that is there; `ofKey`: at the last key itself. */
  atPath: (path: readonly string[], message: string, ofKey?: boolean) => YamlProblem;
}

export type ReadYaml = YamlDocument | { ok: false; problems: YamlProblem[] };

/**
 * YAML 1.2 core schema, duplicate keys refused, aliases bounded. Keys are the text that stands there: YAML writers leave
 * `008:` unquoted, and a category must not lose its zeros.
 */
export function readYaml(file: string, text: string): ReadYaml {
  const counter = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: counter,
    uniqueKeys: false,
    strict: true,
    stringKeys: true,
    merge: true,
  });
  const at = (offset: number, message: string): YamlProblem => {
    const { line, col } = counter.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col), message };
  };
  const errors = document.errors.map((e) => ({ offset: e.pos[0], message: e.message.split('\n')[0] ?? e.message }));
  const faults = [
    ...errors,
    ...repeatedKeys(document).map((offset) => ({ offset, message: 'Map keys must be unique' })),
  ];
  if (faults.length > 0) {
    faults.sort((a, b) => a.offset - b.offset);
    return { ok: false, problems: faults.map(({ offset, message }) => at(offset, message)) };
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
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

/** Where a key stands that its map had before. The library compares each key with all before it: minutes for 100,000 of them. */
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

/** A value as YAML that `readYaml` reads back: texts that look like numbers or words are quoted, small maps stay on a line. */
export function formatYaml(value: unknown): string {
  return stringify(value, { lineWidth: 0, defaultStringType: 'PLAIN', aliasDuplicateObjects: false });
}

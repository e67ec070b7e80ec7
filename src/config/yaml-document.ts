// Checks YAML files against a schema. Reports all errors together, each as file:line:column.
import type { Static, TSchema } from 'typebox';
import { Settings } from 'typebox/system';
import { Value } from 'typebox/value';
import { didYouMean } from '../core/did-you-mean.ts';
import { readYaml, type YamlDocument } from './yaml.ts';
import type { Validated, YamlProblem } from './yaml-problem.ts';

// With the default of 8, further errors would be hidden, and users would discover them one run at a time.
Settings.Set({ maxErrors: 100 });

/** Parses `text` and checks it against `schema`. */
export function parseYaml<S extends TSchema>(file: string, text: string, schema: S): Validated<Static<S>> {
  const read = readYaml(file, text);
  return read.ok ? checkYaml(read, schema) : read;
}

/** Checks a parsed document. */
export function checkYaml<S extends TSchema>({ value, at, atPath }: YamlDocument, schema: S): Validated<Static<S>> {
  if (Value.Check(schema, value)) return { ok: true, value: value as Static<S> };

  const problems: YamlProblem[] = [];
  const seen = new Set<string>();
  const report = (path: string[], message: string, ofKey = false) => {
    const id = `${path.join('/')} ${message}`;
    if (seen.has(id)) return;
    seen.add(id);
    problems.push(atPath(path, message, ofKey));
  };
  for (const e of ofBestBranches(Value.Errors(schema, value))) {
    const path = e.instancePath.split('/').slice(1).map(unescapePointer);
    const name = path.length > 0 ? path.join('.') : 'the document';
    const params = e.params as Record<string, unknown>;
    if (e.keyword === 'boolean' || e.keyword === 'const') continue;
    if (e.keyword === 'additionalProperties') {
      const known = Object.keys(propertiesAt(schema, path));
      for (const key of params.additionalProperties as string[]) {
        report([...path, key], `unknown key ${key}${didYouMean(key, known)}`, true);
      }
    } else if (e.keyword === 'required') {
      for (const key of (params.requiredProperties as string[] | undefined) ?? []) {
        report(path, `${path.length > 0 ? `${name}: ` : ''}missing key ${key}`);
      }
    } else if (e.keyword === 'anyOf' || e.keyword === 'enum') {
      report(path, `${name} must be ${choicesOf(schemasAt(schema, path))}`);
    } else {
      report(path, `${name} ${e.message}`);
    }
  }
  if (problems.length === 0) problems.push(at(0, 'the document does not match the schema'));
  problems.sort((a, b) => a.line - b.line || a.column - b.column);
  return { ok: false, problems };
}

const unescapePointer = (s: string): string => s.replaceAll('~1', '/').replaceAll('~0', '~');

type Shape = {
  type?: string;
  const?: unknown;
  required?: string[];
  properties?: Record<string, TSchema>;
  items?: TSchema;
  anyOf?: TSchema[];
  enum?: unknown[];
  patternProperties?: Record<string, TSchema>;
};

/** All schemas that may apply to the value at `path`, including alternatives. */
function schemasAt(schema: TSchema, path: string[]): Shape[] {
  let level: Shape[] = expand(schema as Shape);
  for (const key of path) {
    level = level.flatMap((s) => {
      const next = s.properties?.[key] ?? s.items ?? Object.values(s.patternProperties ?? {})[0];
      return next ? expand(next as Shape) : [];
    });
  }
  return level;
}

const expand = (s: Shape): Shape[] => (s.anyOf ? s.anyOf.flatMap((x) => expand(x as Shape)) : [s]);

function propertiesAt(schema: TSchema, path: string[]): Record<string, TSchema> {
  return Object.assign({}, ...schemasAt(schema, path).map((s) => s.properties ?? {})) as Record<string, TSchema>;
}

/** Describes the values that the alternatives accept. */
function choicesOf(shapes: readonly Shape[]): string {
  const literals = shapes.flatMap((s) => ('const' in s ? [String(s.const)] : (s.enum ?? []).map(String)));
  const kinds = shapes.flatMap((s) => (s.type === undefined || 'const' in s ? [] : [kindOf(s)]));
  if (kinds.length === 0) return literals.length > 0 ? `one of ${literals.join(', ')}` : 'of another form';
  return [...new Set([...literals, ...kinds])].join(', or ');
}

const KINDS: Record<string, string> = {
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  string: 'text',
  array: 'a list',
  object: 'a mapping',
};

const kindOf = ({ type, required = [] }: Shape): string => {
  const kind = KINDS[type!] ?? type!;
  return type === 'object' && required.length > 0 ? `${kind} with ${required.join(', ')}` : kind;
};

interface SchemaError {
  keyword: string;
  schemaPath: string;
  instancePath: string;
}

const isWithin = (path: string, outer: string): boolean => path === outer || path.startsWith(`${outer}/`);

/** Keywords whose errors mean that the value has another type than the branch expects. */
const OF_KIND = new Set(['type', 'const', 'enum']);

/**
 * Reduces the errors of unions that do not match. Of the branches that expect the value's type, only the errors of the
 * branch with the fewest errors are kept. If no branch expects that type, only the error of the union itself is kept.
 */
function ofBestBranches<E extends SchemaError>(all: readonly E[]): E[] {
  let errors = [...all];
  const unions = errors.filter((e) => e.keyword === 'anyOf').sort((a, b) => a.schemaPath.length - b.schemaPath.length);
  for (const union of unions) {
    if (!errors.includes(union)) continue;
    const branches = new Map<string, E[]>();
    const prefix = `${union.schemaPath}/anyOf/`;
    for (const e of errors) {
      if (!e.schemaPath.startsWith(prefix) || !isWithin(e.instancePath, union.instancePath)) continue;
      const branch = e.schemaPath.slice(prefix.length).split('/', 1)[0]!;
      branches.set(branch, [...(branches.get(branch) ?? []), e]);
    }
    const isOfKind = ([branch, own]: [string, E[]]): boolean =>
      !own.some((e) => OF_KIND.has(e.keyword) && e.schemaPath === prefix + branch);
    const [best] = [...branches].filter(isOfKind).sort((a, b) => a[1].length - b[1].length);
    const dropped = new Set([...branches.values()].flat());
    for (const e of best?.[1] ?? []) dropped.delete(e);
    if (best) dropped.add(union);
    errors = errors.filter((e) => !dropped.has(e));
  }
  return errors;
}

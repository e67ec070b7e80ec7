// Reads a YAML file against a schema and reports all errors together as file:line:column.
import type { Static, TSchema } from 'typebox';
import { Settings } from 'typebox/system';
import { Value } from 'typebox/value';
import { didYouMean } from '../core/did-you-mean.ts';
import { readYaml, type YamlDocument } from './yaml.ts';
import type { Validated, YamlProblem } from './yaml-problem.ts';

// The default of 8 would hide errors, which users would then fix one run at a time.
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
  for (const e of Value.Errors(schema, value)) {
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
      const choices = literalsAt(schema, path);
      report(path, `${name} must be ${choices.length > 0 ? `one of ${choices.join(', ')}` : 'of another form'}`);
    } else {
      report(path, `${name} ${e.message}`);
    }
  }
  if (problems.length === 0) problems.push(at(0, 'does not fit the schema'));
  problems.sort((a, b) => a.line - b.line || a.column - b.column);
  return { ok: false, problems };
}

const unescapePointer = (s: string): string => s.replaceAll('~1', '/').replaceAll('~0', '~');

type Shape = {
  properties?: Record<string, TSchema>;
  items?: TSchema;
  anyOf?: TSchema[];
  enum?: unknown[];
  patternProperties?: Record<string, TSchema>;
};

/** All schemas that may apply at `path`, including alternatives. */
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

function literalsAt(schema: TSchema, path: string[]): string[] {
  return schemasAt(schema, path).flatMap((s) => ('const' in s ? [String(s.const)] : (s.enum ?? []).map(String)));
}

// An error in a YAML file, with its position. Separate from yaml.ts, so that reporting an error does not load the YAML
// library.

export interface YamlProblem {
  file: string;
  line: number;
  column: number;
  message: string;
}

/** Formats an error as `file:line:column message`. Editors can jump to this position. */
export const formatProblem = (p: YamlProblem): string => `${p.file}:${p.line}:${p.column} ${p.message}`;

export type Validated<T> = { ok: true; value: T } | { ok: false; problems: YamlProblem[] };

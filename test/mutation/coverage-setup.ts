// Runs in every test file of a measurement: collects what the file, its threads and its child processes run of the sources.
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import v8 from 'node:v8';
import { afterAll, expect } from 'vitest';
import { COVERAGE_VARIABLE } from './campaign-variables.ts';
import { coveredBounds, type Range, union } from './coverage-bounds.ts';
import type { FileCoverage } from './covering-tests.ts';

interface Report {
  result: { url: string; functions: { ranges: Range[] }[] }[];
}

const FOLDER = process.env[COVERAGE_VARIABLE]!;
const ROOT = `${pathToFileURL(process.cwd()).href}/`;
/** Reports of threads and child processes of this test file. */
const OF_OTHERS = path.join(FOLDER, String(process.pid));

mkdirSync(OF_OTHERS);
process.env.NODE_V8_COVERAGE = OF_OTHERS;

afterAll(() => {
  v8.takeCoverage();
  const own = readdirSync(FOLDER).filter((name) => name.startsWith(`coverage-${process.pid}-`));
  const reports = [...own.map((name) => path.join(FOLDER, name)), ...readdirSync(OF_OTHERS).map((name) => path.join(OF_OTHERS, name))]; // biome-ignore format: one line
  const ranges: FileCoverage['ranges'] = {};
  for (const file of reports) {
    // A process that is killed while it writes leaves half a report.
    const report = parsed(readFileSync(file, 'utf8'));
    for (const { url, functions } of report?.result ?? []) {
      const [address] = url.split('?');
      if (!address!.startsWith(`${ROOT}src/`)) continue;
      const source = address!.slice(ROOT.length);
      const bounds = coveredBounds(functions.flatMap((one) => one.ranges));
      ranges[source] = ranges[source] === undefined ? bounds : union(ranges[source], bounds);
    }
    rmSync(file);
  }
  const test = path.relative(process.cwd(), expect.getState().testPath!);
  appendFileSync(path.join(FOLDER, 'files.jsonl'), `${JSON.stringify({ test, ranges } satisfies FileCoverage)}\n`);
});

function parsed(text: string): Report | null {
  try {
    return JSON.parse(text) as Report;
  } catch {
    return null;
  }
}

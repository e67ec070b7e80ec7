// `npm run bench -- --same-bytes BASE`: one corpus of inputs through every door of both versions; what comes out must be the same, byte for byte.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { ERRORS } from '../../src/core/errors.ts';
import { withBase } from '../base.ts';
import type { Program } from '../prepare.ts';
import { say } from '../run.ts';
import { writeCorpus } from './corpus.ts';
import { commandCases } from './files.ts';
import { INTENDED, type Intended } from './intended.ts';
import { registerCases, ZOO_MODELS } from './models.ts';
import { serviceCases } from './service.ts';
import type { Case, Seen, Side } from './side.ts';
import { topicCases } from './topics.ts';

export interface SameBytesOptions {
  program: Program;
  /** Only cases whose name holds this. */
  only: string;
}

interface Difference {
  case: string;
  part: string;
  /** Where and how, in a line. */
  how: string;
  intended: Intended | null;
}

/** Compares and tells; returns the exit code: 1 when anything differs that may not. */
export async function sameBytes(base: string, { program, only }: SameBytesOptions): Promise<number> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-same-'));
  const corpus = path.join(folder, 'corpus');
  const names = writeCorpus(corpus);
  try {
    return await withBase(base, async (built) => {
      const sides = [
        { name: 'base', program: built.program, folder: path.join(folder, 'base'), corpus },
        { name: 'here', program, folder: path.join(folder, 'here'), corpus },
      ] as const satisfies Side[];
      for (const side of sides) mkdirSync(side.folder);
      const differences: Difference[] = [];
      let compared = 0;
      const compare = async (cases: Iterable<Case> | AsyncIterable<Case>): Promise<void> => {
        for await (const one of cases) {
          if (!one.always && !one.name.includes(only)) continue;
          const [was, is] = await Promise.all(sides.map((side) => one.see(side)));
          compared++;
          for (const found of differencesOf(one.name, was!, is!)) {
            differences.push(found);
            if (found.intended === null) say(`DIFFERS  ${found.case}\n         ${found.part}: ${found.how}`);
          }
        }
        say(`${compared} cases`);
      };
      await compare(registerCases());
      await compare(commandCases(names, ZOO_MODELS));
      await compare(serviceCases(sides, corpus, only));
      await compare(topicCases(sides, only));
      return verdict(compared, differences, only === '');
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Differences that remain in no byte but those of the masked texts. */
interface Masked extends Intended {
  masks: readonly (readonly [RegExp, string])[];
}

const CODE = Object.keys(ERRORS).join('|');
const MESSAGES: Masked = {
  cases: /./,
  why: 'messages of rejected rows and requests are in plain English, and the version is another: only these texts differ',
  masks: [
    [/"(?:message|title|detail)":"(?:[^"\\]|\\.)*"/g, ''],
    // The value of a record is JSON within JSON.
    [/\\"message\\":\\"(?:[^"\\]|\\\\.)*\\"/g, ''],
    [/\\\\\\"message\\\\\\":\\\\\\"[^"]*\\\\\\"/g, ''],
    // Their length in headers and in the state of a job.
    [/(?:content-length: |content-range: bytes [\d-]+\/|"resultBytes":)\d+/g, ''],
    [/(sluice-version: |Sluice )\d+\.\d+\.\d+/g, ''],
    // In delimited text the message follows the code and the column.
    [new RegExp(`([,;|\\t](?:${CODE})([,;|\\t])[^,;|\\t\\n]*\\2)(?:"(?:[^"]|"")*"|(?:(?!\\2)[^\\r\\n])*)`, 'g'), '$1'],
  ],
};
const REASONS: Masked = {
  cases: /interpretation|reasons|explain|^zoo/,
  why: 'reason codes are of columns whose typical value alone raises the score; effects are unchanged',
  masks: [
    ...MESSAGES.masks,
    [/"reasons":\[(?:\{[^}]*\},?)*\]/g, ''],
    [/([,;|\t])\w+(?:;\w+)*(?=[,;|\t]?\r?\n)/g, '$1'],
  ],
};

/** The bytes, uncompressed, without what a mask leaves out. */
function masked(bytes: Buffer, { masks }: Masked): string {
  const isGzip = bytes.length > 4 && bytes.readUInt16BE(0) === 0x1f8b;
  const isZstd = bytes.length > 4 && bytes.readUInt32LE(0) === 0xfd2fb528;
  const plain = isGzip ? gunzipSync(bytes) : isZstd ? zstdDecompressSync(bytes) : bytes;
  return masks.reduce((text, [pattern, left]) => text.replaceAll(pattern, left), plain.toString('latin1'));
}

const differInMasked = (name: string, a: Buffer | undefined, b: Buffer | undefined): Masked | null =>
  (a && b && [MESSAGES, REASONS].find((mask) => mask.cases.test(name) && masked(a, mask) === masked(b, mask))) || null;

function differencesOf(name: string, was: Seen, is: Seen): Difference[] {
  const found: Difference[] = [];
  for (const part of new Set([...was.keys(), ...is.keys()])) {
    const [a, b] = [was.get(part), is.get(part)];
    if (a && b && a.equals(b)) continue;
    const intended = INTENDED.find((i) => i.cases.test(name) && (i.parts?.test(part) ?? true)) ?? null;
    found.push({ case: name, part, how: how(a, b), intended: intended ?? differInMasked(name, a, b) });
  }
  return found;
}

const AROUND = 60;

function how(a: Buffer | undefined, b: Buffer | undefined): string {
  if (!a) return `only here, ${b!.length} bytes: ${shown(b!, 0)}`;
  if (!b) return `only in the base, ${a.length} bytes: ${shown(a, 0)}`;
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at++;
  const from = Math.max(0, at - AROUND);
  return `${a.length} bytes are ${b.length}, from byte ${at} on\n           base …${shown(a, from)}\n           here …${shown(b, from)}`;
}

const shown = (bytes: Buffer, from: number): string =>
  JSON.stringify(bytes.subarray(from, from + 3 * AROUND).toString('latin1'));

function verdict(compared: number, differences: readonly Difference[], whole: boolean): number {
  const write = (text: string): void => void process.stdout.write(`${text}\n`);
  for (const intended of [...INTENDED, MESSAGES, REASONS]) {
    const of = differences.filter((d) => d.intended === intended);
    if (of.length === 0 && !whole) continue;
    write(
      `intended: ${intended.why}: ${of.length === 0 ? 'not seen; a row of intended.ts without a case can go' : `${new Set(of.map((d) => d.case)).size} cases`}`,
    );
  }
  const findings = differences.filter((d) => d.intended === null);
  for (const { case: name, part, how: text } of findings) write(`DIFFERS ${name}\n  ${part}: ${text}`);
  const unseen = whole ? INTENDED.filter((i) => !differences.some((d) => d.intended === i)).length : 0;
  write(`${compared} cases at every door, ${findings.length} differences that nobody intended`);
  return findings.length > 0 || unseen > 0 ? 1 : 0;
}

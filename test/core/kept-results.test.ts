// What is kept is taken only where it is whole, under its own name, and nobody else could have written it.
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'; // biome-ignore format: one line
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { readYaml } from '../../src/config/yaml.ts';
import { readYamlValue } from '../../src/config/yaml-value.ts';
import { KeptResults } from '../../src/core/kept-results.ts';

const HOUR_MS = 3_600_000;
const folder = (): string => path.join(mkdtempSync(path.join(tmpdir(), 'sluice-kept-')), 'kept');

async function keptIn(place: string): Promise<{ kept: KeptResults; name: string; file: string }> {
  const kept = new KeptResults(place);
  const name = KeptResults.nameOf('plan', 'a', 'bc');
  await kept.write(name, Buffer.from('what was found out'));
  return { kept, name, file: path.join(place, name) };
}

describe('kept results', () => {
  test('the next process reads what one has written', async () => {
    const place = folder();
    const { name, kept } = await keptIn(place);
    expect(String(await new KeptResults(place).read(name))).toBe('what was found out');
    expect([kept.has('plan'), kept.has('pla'), kept.has('verdict')]).toEqual([true, false, false]);
    expect(await kept.read(KeptResults.nameOf('plan', 'ab', 'c'))).toBeNull();
  });

  test('a name says where each part ends', () => {
    const names = [['ab', 'c'], ['a', 'bc'], ['abc'], ['', 'abc'], ['abd']].map((of) => KeptResults.nameOf('x', ...of));
    expect(new Set(names).size).toBe(names.length);
  });

  const harms: Record<string, (file: string, place: string) => void> = {
    'every byte changed in turn': () => {},
    'torn at its end': (file) => writeFileSync(file, readFileSync(file).subarray(0, -1)),
    'torn within its digest': (file) => writeFileSync(file, readFileSync(file).subarray(0, 20)),
    empty: (file) => writeFileSync(file, ''),
    'that others may write': (file) => chmodSync(file, 0o622),
    'in a folder that others may write to': (_, place) => chmodSync(place, 0o777),
    'that is a link': (file) => {
      renameSync(file, `${file}-elsewhere`);
      symlinkSync(`${file}-elsewhere`, file);
    },
    'that is a folder': (file) => {
      renameSync(file, `${file}-elsewhere`);
      mkdirSync(file);
    },
  };
  for (const [what, harm] of Object.entries(harms)) {
    test(`one is not taken: ${what}`, async () => {
      const place = folder();
      const { kept, name, file } = await keptIn(place);
      harm(file, place);
      if (what !== 'every byte changed in turn') return expect(await kept.read(name)).toBeNull();
      const whole = readFileSync(file);
      for (let at = 0; at < whole.length; at++) {
        const changed = Buffer.from(whole);
        changed[at]! ^= 1;
        writeFileSync(file, changed);
        expect(await kept.read(name), `byte ${at}`).toBeNull();
      }
    });
  }

  test('under another name it is another result', async () => {
    const { kept, name, file } = await keptIn(folder());
    const other = KeptResults.nameOf('plan', 'another');
    renameSync(file, file.replace(name, other));
    expect(await kept.read(other)).toBeNull();
  });

  test('where nothing can be kept nothing fails', async () => {
    const place = folder();
    writeFileSync(place, 'a file where the folder would be');
    const kept = new KeptResults(place);
    await kept.write('plan-1', Buffer.from('x'));
    expect([await kept.read('plan-1'), kept.has('plan')]).toEqual([null, false]);
    expect(KeptResults.ofUser({ SLUICE_CACHE: 'off', HOME: tmpdir() })).toBeNull();
  });

  test('a folder is named by SLUICE_CACHE', async () => {
    const place = folder();
    await KeptResults.ofUser({ SLUICE_CACHE: place, XDG_CACHE_HOME: '/nowhere' })!.write('plan-1', Buffer.from('x'));
    expect(readdirSync(path.join(place, 'kept'))).toEqual(['plan-1']);
  });

  test('what is old, too much, or left behind by a process that died is cleared away', async () => {
    const place = folder();
    const kept = new KeptResults(place, { entries: 3, bytes: 1000, ms: 10 * HOUR_MS });
    const age = (name: string, hours: number) => {
      const at = Date.now() / 1000 - hours * 3600;
      utimesSync(path.join(place, name), at, at);
    };
    for (const [i, hours] of [20, 4, 3, 2].entries()) {
      await kept.write(`plan-${i}`, Buffer.alloc(50));
      age(`plan-${i}`, hours);
    }
    writeFileSync(path.join(place, '.1-half'), 'x');
    age('.1-half', 30);
    writeFileSync(path.join(place, '.2-at-work'), 'x');
    await kept.write('plan-4', Buffer.alloc(50));
    expect(readdirSync(place).sort()).toEqual(['.2-at-work', 'plan-2', 'plan-3', 'plan-4']);
    await kept.write('plan-5', Buffer.alloc(900));
    expect(readdirSync(place).sort()).toEqual(['.2-at-work', 'plan-5']);
  });
});

describe('values of YAML files', () => {
  const before = { home: process.env.XDG_CACHE_HOME, cache: process.env.SLUICE_CACHE };
  afterAll(() => {
    process.env.SLUICE_CACHE = before.cache;
    if (before.home === undefined) delete process.env.XDG_CACHE_HOME;
    else process.env.XDG_CACHE_HOME = before.home;
  });

  test.each([
    'a: 1\nb: [x, "2", 3.5, true, null]\n',
    'codes: { 008: 1, "8": 2, ~: 3 }\n',
    '__proto__: { a: 1 }\nconstructor: 2\n',
    'a: &x { b: -0.0 }\nc: *x\nd: .nan\ne: -.inf\n',
    'd: 2026-11-22\nn: 9007199254740993\nt: "\\u2028\\ud800"\n',
    '',
    'a: 1\na: 2\n',
    '- [1\n',
  ])('%j is read alike, for the first time and again', async (text) => {
    const place = mkdtempSync(path.join(tmpdir(), 'sluice-kept-'));
    process.env.XDG_CACHE_HOME = place;
    delete process.env.SLUICE_CACHE;
    const expected = readYaml('f.yaml', text);
    for (let i = 0; i < 2; i++) {
      const read = await readYamlValue('f.yaml', text);
      if (expected.ok) expect(read).toStrictEqual({ ok: true, value: expected.value });
      else expect(read).toEqual({ ok: false, problems: expected.problems });
    }
  });
});

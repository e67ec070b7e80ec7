// The last lines of a test run: what ran, what was skipped and why, and which files took longest.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node';
import { KEPT_FOLDER } from './kept-folder.ts';
import { CPU_FILE, SIZES_FILE, SKIPPED } from './tiers.ts';

const FILES_SHOWN = 10;
const REASONS_SHOWN = 12;

/** The reason in the name of a test or of a suite around it; null: skipped without a reason, as by `-t`. */
function reasonOf(test: TestCase): string | null {
  for (let at: TestCase | TestSuite | TestModule = test; at.type !== 'module'; at = at.parent) {
    const reason = at.name.split(SKIPPED)[1];
    if (reason !== undefined) return reason;
  }
  return null;
}

/** Lines that test files left, as cells; none where nothing was left. */
function linesOf(name: string): string[][] {
  const file = path.join(KEPT_FOLDER, name);
  const text = existsSync(file) ? readFileSync(file, 'utf8').trimEnd() : '';
  return text === '' ? [] : text.split('\n').map((line) => line.split('\t'));
}

/** CPU seconds by test file, child processes included; empty where they cannot be read. */
function cpuSeconds(): Map<string, number> {
  const seconds = new Map<string, number>();
  for (const [file, text] of linesOf(CPU_FILE)) seconds.set(file!, (seconds.get(file!) ?? 0) + Number(text));
  return seconds;
}

/** Writes the CPU seconds and the seconds of all test files of a run, the largest first. Returns the path. */
function leaveCpuTable(tier: string, cpu: ReadonlyMap<string, number>, modules: readonly TestModule[]): string {
  const file = path.join('coverage', `cpu-${tier}.tsv`);
  mkdirSync('coverage', { recursive: true });
  const duration = new Map(modules.map((module) => [module.relativeModuleId, module.diagnostic().duration / 1000]));
  const rows = [...cpu]
    .sort((a, b) => b[1] - a[1])
    .map(([name, seconds]) => `${seconds.toFixed(1)}\t${(duration.get(name) ?? 0).toFixed(1)}\t${name}\n`);
  writeFileSync(file, rows.join(''));
  return file;
}

/** The repetitions of campaigns with their number: a line each. */
function sizes(): string[] {
  const byFile = linesOf(SIZES_FILE).sort((a, b) => (a.join() < b.join() ? -1 : 1));
  return [...new Set(byFile.map(([file, what, size]) => `  ${size!.padStart(9)} ${what} (${file})`))];
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

function skipLines(modules: readonly TestModule[]): string[] {
  const skipped = new Map<string, number>();
  for (const module of modules) {
    for (const test of module.children.allTests('skipped')) {
      const reason = reasonOf(test);
      if (reason !== null) skipped.set(reason, (skipped.get(reason) ?? 0) + 1);
    }
  }
  const byNumber = [...skipped].sort((a, b) => b[1] - a[1]);
  const lines = byNumber.slice(0, REASONS_SHOWN).map(([reason, count]) => `  ${plural(count, 'test')}: ${reason}`);
  const others = byNumber.slice(REASONS_SHOWN);
  if (others.length > 0) {
    const tests = others.reduce((sum, [, count]) => sum + count, 0);
    lines.push(`  ${plural(tests, 'test')}: ${others.length} other reasons`);
  }
  return lines;
}

export class SummaryReporter implements Reporter {
  readonly #tier: string;
  readonly #seed: string;
  readonly #omitted: number;
  readonly #began = performance.now();

  /** `omitted`: test files that this tier leaves out. */
  constructor(tier: string, seed: string, omitted: number) {
    this.#tier = tier;
    this.#seed = seed;
    this.#omitted = omitted;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) count[test.result().state]++;
    }
    const cpu = cpuSeconds();
    const total = [...cpu.values()].reduce((sum, seconds) => sum + seconds, 0);
    const minutes = (performance.now() - this.#began) / 60_000;
    const cost = cpu.size === 0 ? '' : `, ${(total / 60).toFixed(1)} CPU minutes`;
    const lines = [
      `Tier ${this.#tier}, seed ${this.#seed}: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped in ${plural(modules.length, 'file')}; ${minutes.toFixed(1)} minutes${cost}`,
    ];
    if (this.#omitted > 0)
      lines.push(`${plural(this.#omitted, 'file')} only in \`npm run check\`: see vitest.config.ts`);
    const skips = skipLines(modules);
    if (skips.length > 0) lines.push('Skipped:', ...skips);
    const campaigns = sizes();
    if (campaigns.length > 0) lines.push('Sizes of the campaigns:', ...campaigns);
    if (modules.length > FILES_SHOWN) {
      const slowest = [...modules].sort((a, b) => b.diagnostic().duration - a.diagnostic().duration);
      lines.push('Slowest files:');
      for (const module of slowest.slice(0, FILES_SHOWN)) {
        const seconds = (module.diagnostic().duration / 1000).toFixed(1);
        const used = cpu.get(module.relativeModuleId);
        lines.push(
          `  ${seconds.padStart(6)} s${used === undefined ? '' : ` ${used.toFixed(1).padStart(6)} CPU s`}  ${module.relativeModuleId}`,
        );
      }
    }
    if (cpu.size > 0) lines.push(`CPU seconds and seconds of every file: ${leaveCpuTable(this.#tier, cpu, modules)}`);
    process.stdout.write(`${lines.join('\n')}\n`);
  }
}

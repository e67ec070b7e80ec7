// Rules in the hands of Prometheus' own tool: each alert fires where it shall, and nothing fires where nothing is wrong.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { ERRORS } from '../../src/core/errors.ts';
import { ALERTS, INHIBITIONS } from '../../tools/alerts/alert-table.ts';
import { RECORDINGS } from '../../tools/alerts/recordings.ts';
import { ruleGroups, rulesFile } from '../../tools/alerts/rules-file.ts';
import { Times } from '../../tools/alerts/times.ts';
import { CODES_OF_OURS } from '../../tools/alerts/topic-alerts.ts';
import { scratch } from '../support/cli.ts';
import { checkTestNeeding, testNeeding } from '../support/tools.ts';
import { RULE_CASES, type RuleCase } from './rule-cases.ts';

const MINUTE = '1m';
/** How often rules are evaluated: as seldom as each case allows, because that is what promtool spends its time on. */
const EVERY = { minutes: '2m', hours: '5m', days: '30m' } as const;
function lengthOf({ at }: RuleCase): keyof typeof EVERY {
  const minutes = Number.parseInt(at, 10);
  if (minutes > 120) return 'days';
  return minutes >= 20 && minutes % 5 === 0 ? 'hours' : 'minutes';
}
/** promtool has little to keep: a garbage collection less often costs a third less CPU time. */
const ENV = { ...process.env, GOGC: '800' };
const names = ALERTS.map((a) => a.name);

test('every alert has cases, a runbook of its own and a name that nothing else has', () => {
  expect(names.length).toBeGreaterThan(25);
  expect(Object.keys(RULE_CASES).toSorted()).toEqual(names.toSorted());
  expect(new Set([...names, ...RECORDINGS.map((r) => r.record)]).size).toBe(names.length + RECORDINGS.length);
  for (const [name, { fires, quiet }] of Object.entries(RULE_CASES)) {
    expect(fires.length, name).toBeGreaterThan(0);
    expect(quiet.length, name).toBeGreaterThan(0);
  }
  const sections = readFileSync('docs/runbooks.md', 'utf8').split(/^## /m).slice(1);
  expect(sections.map((s) => s.slice(0, s.indexOf('\n')))).toEqual(names);
  for (const section of sections) {
    for (const part of ['**Means:** ', '**Look at:** ', '**Do:** ']) expect(section, part).toContain(`\n${part}`);
  }
});

test('causes and effects are alerts, and codes are those of the catalogue', () => {
  const named = INHIBITIONS.flatMap(({ cause, effects }) => [cause, ...effects]);
  expect(named.filter((name) => !names.includes(name))).toEqual([]);
  expect(CODES_OF_OURS.filter((code) => !(code in ERRORS))).toEqual([]);
});

/** Every recording that alerts depend on, and the alerts. */
function judgedExpressions(): Map<string, string> {
  const t = new Times();
  const found = new Map(ALERTS.map(({ name, expr }) => [name, expr(t)]));
  // A map visits what is added during the visit.
  for (const text of found.values()) {
    for (const { record, expr } of RECORDINGS) if (text.includes(record)) found.set(record, expr(t));
  }
  return found;
}

test('no alert counts with a bare rate() or increase(), which ignore what a series starts with', () => {
  const judged = judgedExpressions();
  expect(judged.size).toBeGreaterThan(ALERTS.length);
  for (const [name, text] of judged) {
    expect(text, name).not.toMatch(/\bi?rate\(/);
    for (const [, counter, span] of text.matchAll(/\bincrease\(([^()[\]]+)\[(\w+)\]\)/g)) {
      const start = `(last_over_time(${counter}[${span}]) unless ${counter} offset ${span}) and on (job, instance) sluice:instance_watched:${span} or increase(`;
      expect(text, name).toContain(start);
    }
  }
});

testNeeding(['promtool'], 'promtool takes the rules, with times as they are and divided', () => {
  const folder = scratch();
  for (const divisor of [1, 60, 600]) {
    const file = path.join(folder, `rules-${divisor}.yaml`);
    writeFileSync(file, rulesFile(new Times(divisor)));
    const { stdout, stderr, status } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' });
    expect(stderr).toBe('');
    expect(stdout).toContain(`${ALERTS.length + RECORDINGS.length} rules found`);
    expect(status).toBe(0);
  }
});

/** A file for `promtool test rules`; recordings come first, as Prometheus has them at hand when it evaluates alerts. */
const testFile = (every: string, tests: unknown[]): string =>
  stringify(
    {
      rule_files: ['rules.yaml'],
      evaluation_interval: every,
      group_eval_order: ruleGroups().map((g) => g.name),
      tests,
    },
    { lineWidth: 0 },
  );

/** One group of promtool's: at that time exactly these alerts fire. */
const group = (name: string, { series, at, also = [] }: RuleCase, firing: readonly string[]) => ({
  name,
  interval: MINUTE,
  input_series: Object.entries(series).map(([one, values]) => ({ series: one, values })),
  promql_expr_test: [
    {
      expr: 'group by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: at,
      exp_samples: [...firing, ...also].map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
    },
  ],
});

checkTestNeeding(['promtool'], 'each alert fires where it shall, alone, and nothing fires where it shall not', () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'rules.yaml'), rulesFile());
  const all = Object.entries(RULE_CASES).flatMap(([name, { fires, quiet }]) => [
    ...fires.map((one, i) => ({ one, test: group(`${name} fires ${i}`, one, [name]) })),
    ...quiet.map((one, i) => ({ one, test: group(`${name} is quiet ${i}`, one, []) })),
  ]);
  expect(all.length).toBeGreaterThan(2 * ALERTS.length);
  for (const [length, cases] of Map.groupBy(all, ({ one }) => lengthOf(one))) {
    const file = path.join(folder, `${length}.yaml`);
    const tests = cases.map((c) => c.test);
    writeFileSync(file, testFile(EVERY[length], tests));
    const { stdout, stderr, status } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8', env: ENV });
    expect(stderr).toBe('');
    expect(stdout).toContain('SUCCESS');
    expect(status).toBe(0);
  }
});

testNeeding(['promtool'], 'a case that does not hold is found', () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'rules.yaml'), rulesFile());
  const { fires, quiet } = RULE_CASES.SluicePipelinePaused!;
  for (const [one, firing] of [
    [fires[0]!, []],
    [quiet[0]!, ['SluicePipelinePaused']],
  ] as const) {
    const file = path.join(folder, 'case.yaml');
    const tests = [group('wrong', one, firing)];
    writeFileSync(file, testFile(MINUTE, tests));
    expect(spawnSync('promtool', ['test', 'rules', file]).status).not.toBe(0);
  }
});

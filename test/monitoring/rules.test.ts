// Rules in the hands of Prometheus' own tool: each alert fires where it shall, and nothing fires where nothing is wrong.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { ERRORS } from '../../src/core/errors.ts';
import { ALERTS, INHIBITIONS } from '../../tools/alerts/alert-table.ts';
import { RECORDINGS } from '../../tools/alerts/recordings.ts';
import { rulesFile } from '../../tools/alerts/rules-file.ts';
import { Times } from '../../tools/alerts/times.ts';
import { CODES_OF_OURS } from '../../tools/alerts/topic-alerts.ts';
import { scratch } from '../support/cli.ts';
import { testNeeding } from '../support/tools.ts';
import { RULE_CASES, type RuleCase } from './rule-cases.ts';

const MINUTE = '1m';
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

testNeeding(['promtool'], 'each alert fires where it shall, alone, and nothing fires where it shall not', () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'rules.yaml'), rulesFile());
  const tests = Object.entries(RULE_CASES).flatMap(([name, { fires, quiet }]) => [
    ...fires.map((one, i) => group(`${name} fires ${i}`, one, [name])),
    ...quiet.map((one, i) => group(`${name} is quiet ${i}`, one, [])),
  ]);
  expect(tests.length).toBeGreaterThan(2 * ALERTS.length);
  const file = path.join(folder, 'cases.yaml');
  writeFileSync(file, stringify({ rule_files: ['rules.yaml'], evaluation_interval: MINUTE, tests }, { lineWidth: 0 }));
  const { stdout, stderr, status } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(stdout).toContain('SUCCESS');
  expect(status).toBe(0);
});

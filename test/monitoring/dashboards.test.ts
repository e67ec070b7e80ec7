// Dashboards as they are read at night: every panel says what it shows, in a unit, of metrics that there are.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { METRICS_PROCESSES } from '../../src/monitor/metric-registration.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { RECORDINGS } from '../../tools/alerts/recordings.ts';
import { rulesFile } from '../../tools/alerts/rules-file.ts';
import { DASHBOARDS, dashboardJson } from '../../tools/dashboards/dashboard.ts';
import { scratch } from '../support/cli.ts';
import { QUERIES, withChoices } from '../support/dashboard-queries.ts';
import { testNeeding } from '../support/tools.ts';

/** Metrics that are no part of the table: written by a command, or by Prometheus. */
const ELSEWHERE = /^(sluice_outcome_\w+)$/;
const GRID_COLUMNS = 24;

const panels = DASHBOARDS.flatMap((d) =>
  Object.entries(d.rows).flatMap(([row, list]) =>
    list.map((panel) => ({ ...panel, at: `${d.uid}: ${row}: ${panel.title}` })),
  ),
);

test('every panel has a unit, a description, thresholds in order and queries', () => {
  expect(DASHBOARDS.map((d) => d.title)).toEqual(['Fleet', 'HTTP', 'Pipeline', 'Model & drift', 'Nightly'].map((t) => `Sluice / ${t}`)); // biome-ignore format: one line
  expect(panels.length).toBeGreaterThan(80);
  for (const { at, description, queries, thresholds } of panels) {
    expect(description, at).toMatch(/^[A-Z0-9…].{20,}\.$|…$/);
    expect(queries.length, at).toBeGreaterThan(0);
    const steps = thresholds.slice(1).map((step) => step[0] as number);
    expect(steps, at).toEqual(steps.toSorted((a, b) => a - b));
  }
  expect(new Set(panels.map((p) => p.at)).size).toBe(panels.length);
});

test('the JSON of a dashboard has all of it: panels with numbers of their own, within the grid, and the choices their queries use', () => {
  for (const spec of DASHBOARDS) {
    const built = JSON.parse(dashboardJson(spec)) as {
      uid: string;
      templating: { list: { name: string }[] };
      panels: { id: number; type: string; gridPos: { x: number; w: number }; targets?: { expr: string }[] }[];
    };
    const ids = built.panels.map((p) => p.id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(built.panels.every((p) => p.gridPos.x + p.gridPos.w <= GRID_COLUMNS)).toBe(true);
    const targets = built.panels.flatMap((p) => p.targets ?? []).map((t) => t.expr);
    expect(targets).toEqual(Object.values(spec.rows).flat().flatMap((p) => p.queries.map((q) => q.expr))); // biome-ignore format: one line
    const choices = built.templating.list.map((v) => v.name);
    const used = targets.flatMap((expr) => [...expr.matchAll(/\$([a-z]+)\b/g)].map((m) => m[1]!));
    expect(used.filter((name) => !choices.includes(name))).toEqual([]);
    expect(choices.filter((name) => name !== 'datasource' && !used.includes(name))).toEqual([]);
  }
});

test('every metric that is asked for, in dashboards, rules and runbooks, is one there is', async () => {
  const there = new Set(RECORDINGS.map((r) => r.record));
  for (const metrics of METRICS_PROCESSES.map((process) => new Metrics(process))) {
    for (const registry of [metrics.registry, metrics.columns, metrics.file]) {
      for (const { name, type } of await registry.getMetricsAsJSON()) {
        there.add(name);
        if (String(type) === 'histogram') for (const part of ['bucket', 'sum', 'count']) there.add(`${name}_${part}`);
      }
    }
  }
  const texts = [...QUERIES.map((q) => q.expr), rulesFile(), readFileSync('docs/runbooks.md', 'utf8')];
  const asked = new Set(
    texts.flatMap((t) => [...t.matchAll(/\b(?:sluice[_:]|process_|nodejs_)[\w:]+/g)].map((m) => m[0])),
  );
  expect(asked.size).toBeGreaterThan(60);
  expect([...asked].filter((name) => !there.has(name) && !ELSEWHERE.test(name))).toEqual([]);
});

testNeeding(['promtool'], 'every query parses', () => {
  const file = path.join(scratch(), 'queries.yaml');
  const rules = QUERIES.map(({ expr }, i) => ({ record: `query:${i}`, expr: withChoices(expr) }));
  writeFileSync(file, stringify({ groups: [{ name: 'queries', rules }] }, { lineWidth: 0 }));
  const { stdout, stderr } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(stdout).toContain(`${QUERIES.length} rules found`);
});

testNeeding(['promtool'], 'the scrape jobs are a configuration that Prometheus takes', () => {
  const words = spawnSync('promtool', ['check', 'config', '--syntax-only', 'k8s/monitoring/prometheus.yaml'], { encoding: 'utf8' }); // biome-ignore format: one line
  expect(words.stderr).toBe('');
  expect(words.status).toBe(0);
});

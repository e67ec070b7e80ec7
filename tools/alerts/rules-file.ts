// Writes the rules for Prometheus and an example for Alertmanager; a test compares the files in k8s/monitoring with them.
import { stringify } from 'yaml';
import { ALERT_GROUPS, INHIBITIONS } from './alert-table.ts';
import { RECORDINGS } from './recordings.ts';
import type { Alert } from './rule.ts';
import { Times } from './times.ts';

const RUNBOOKS = 'docs/runbooks.md';
const NO_FOLDING = { lineWidth: 0 };

/** Where the runbook of an alert is. */
export const runbookOf = (alert: string): string => `${RUNBOOKS}#${alert.toLowerCase()}`;

function alertRule({ name, severity, summary, expr, for: lasting }: Alert, t: Times) {
  return {
    alert: name,
    expr: expr(t),
    ...(lasting ? { for: t.span(lasting) } : {}),
    labels: { severity },
    annotations: { summary, runbook_url: runbookOf(name) },
  };
}

/** Groups of rules, as Prometheus and its operator have them. */
export function ruleGroups(t = new Times()) {
  return [
    { name: 'sluice-recordings', rules: RECORDINGS.map(({ record, expr }) => ({ record, expr: expr(t) })) },
    ...Object.entries(ALERT_GROUPS).map(([name, alerts]) => ({ name, rules: alerts.map((a) => alertRule(a, t)) })),
  ];
}

/** k8s/monitoring/rules.yaml, or the same with times divided. */
export function rulesFile(t = new Times()): string {
  const head = '# Written by `npm run docs` from tools/alerts: `rule_files` of a Prometheus of your own.\n';
  return head + stringify({ groups: ruleGroups(t) }, NO_FOLDING);
}

/** k8s/monitoring/prometheus-rule.yaml: the same for the Prometheus operator. */
export function prometheusRule(): string {
  const head = '# Written by `npm run docs` from tools/alerts: the rules for the Prometheus operator.\n';
  const rule = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'sluice', labels: { app: 'sluice' } },
    spec: { groups: ruleGroups() },
  };
  return head + stringify(rule, NO_FOLDING);
}

/** What tells somebody, and how long it waits for more of the same. */
export interface Receivers {
  page: string;
  ticket: string;
  groupWait: string;
  groupInterval: string;
}

const EXAMPLE: Receivers = {
  page: 'http://pager.example.com/hook',
  ticket: 'http://tickets.example.com/hook',
  groupWait: '30s',
  groupInterval: '5m',
};

/** k8s/monitoring/alertmanager.yaml: routes by severity, and no effect is told beside its cause. */
export function alertmanagerFile({ page, ticket, groupWait, groupInterval }: Receivers = EXAMPLE): string {
  const head =
    '# Written by `npm run docs` from tools/alerts: an example. Put your receivers in, and keep the inhibitions.\n';
  const receiver = (name: string, url: string) => ({ name, webhook_configs: [{ url, send_resolved: true }] });
  const config = {
    route: {
      receiver: 'ticket',
      group_by: ['alertname', 'namespace', 'pipeline', 'model'],
      group_wait: groupWait,
      group_interval: groupInterval,
      repeat_interval: '4h',
      routes: [{ matchers: ['severity="page"'], receiver: 'page' }],
    },
    inhibit_rules: INHIBITIONS.map(({ cause, effects, equal }) => ({
      source_matchers: [`alertname="${cause}"`],
      target_matchers: [`alertname=~"${effects.join('|')}"`],
      equal: [...equal],
    })),
    receivers: [receiver('page', page), receiver('ticket', ticket)],
  };
  return head + stringify(config, NO_FOLDING);
}

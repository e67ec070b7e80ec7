// Makes what Grafana imports of the plain data beside this file; a test compares k8s/monitoring/dashboards with it.
import { PanelBuilder as BarsBuilder } from '@grafana/grafana-foundation-sdk/bargauge';
import * as common from '@grafana/grafana-foundation-sdk/common';
import {
  BarGaugeDisplayMode,
  GraphThresholdsStyleMode,
  StackingMode,
  VizOrientation,
} from '@grafana/grafana-foundation-sdk/common';
import {
  DashboardBuilder,
  DashboardCursorSync,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
  VariableSort,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder, PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as NumberBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TableBuilder } from '@grafana/grafana-foundation-sdk/table';
import { PanelBuilder as LinesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';
import { FLEET } from './fleet.ts';
import { HTTP } from './http.ts';
import { MODEL } from './model.ts';
import { NIGHTLY } from './nightly.ts';
import type { Choice, DashboardSpec, Panel } from './panel.ts';
import { PIPELINE } from './pipeline.ts';

export const DASHBOARDS: readonly DashboardSpec[] = [FLEET, HTTP, PIPELINE, MODEL, NIGHTLY];

const SOURCE = { type: 'prometheus', uid: '$datasource' };
const HEIGHT = 8;
const NUMBER_HEIGHT = 4;

/** The dashboard as JSON, as Grafana imports or provisions it. */
export function dashboardJson(spec: DashboardSpec): string {
  const dashboard = new DashboardBuilder(spec.title)
    .uid(spec.uid)
    .description(spec.description)
    .tags(['sluice'])
    .readonly()
    .timezone('browser')
    .refresh('30s')
    .time({ from: spec.from ?? 'now-6h', to: 'now' })
    .tooltip(DashboardCursorSync.Crosshair)
    .withVariable(new DatasourceVariableBuilder('datasource').label('Prometheus').type('prometheus'));
  for (const choice of spec.choices) dashboard.withVariable(variableOf(choice));
  let id = 0;
  for (const [title, panels] of Object.entries(spec.rows)) {
    dashboard.withRow(new RowBuilder(title).id(++id));
    for (const panel of panels) dashboard.withPanel(panelOf(panel).id(++id));
  }
  return `${JSON.stringify(dashboard.build(), null, 2)}\n`;
}

function variableOf({ name, of }: Choice): QueryVariableBuilder {
  return new QueryVariableBuilder(name)
    .label(name)
    .datasource(SOURCE)
    .query({ query: `label_values(${of}, ${name})`, refId: name })
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.NaturalAsc)
    .multi(true)
    .includeAll(true)
    .allValue('.*')
    .current({ selected: true, text: ['All'], value: ['$__all'] });
}

function panelOf(panel: Panel) {
  const [below, ...steps] = panel.thresholds;
  const thresholds = new ThresholdsConfigBuilder()
    .mode(ThresholdsMode.Absolute)
    .steps([{ value: null, color: below }, ...steps.map(([value, color]) => ({ value, color }))]);
  const builder = emptyPanel(panel)
    .title(panel.title)
    .description(panel.description)
    .datasource(SOURCE)
    .unit(panel.unit)
    .thresholds(thresholds)
    .span(panel.width ?? (panel.kind === 'number' ? 4 : 8))
    .height(panel.kind === 'number' ? NUMBER_HEIGHT : HEIGHT);
  if (panel.min !== undefined) builder.min(panel.min);
  if (panel.max !== undefined) builder.max(panel.max);
  for (const [i, { expr, legend, instant }] of panel.queries.entries()) {
    const query = new DataqueryBuilder()
      .refId(String.fromCharCode(65 + i))
      .expr(expr)
      .legendFormat(legend);
    if (instant) query.instant();
    else query.range();
    if (panel.kind === 'table') query.format(PromQueryFormat.Table);
    builder.withTarget(query.datasource(SOURCE));
  }
  return builder;
}

const last = () => new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']);

function emptyPanel({ kind, thresholds }: Panel) {
  if (kind === 'number')
    return new NumberBuilder().colorMode(common.BigValueColorMode.Background).reduceOptions(last());
  if (kind === 'table') return new TableBuilder();
  if (kind === 'bars')
    return new BarsBuilder()
      .reduceOptions(last())
      .displayMode(BarGaugeDisplayMode.Basic)
      .orientation(VizOrientation.Horizontal);
  const lines = new LinesBuilder().fillOpacity(kind === 'stacked' ? 30 : 0).lineWidth(1);
  if (thresholds.length > 1) {
    lines.thresholdsStyle(new common.GraphThresholdsStyleConfigBuilder().mode(GraphThresholdsStyleMode.Dashed));
  }
  return kind === 'stacked' ? lines.stacking(new common.StackingConfigBuilder().mode(StackingMode.Normal)) : lines;
}

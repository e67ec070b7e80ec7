// What a dashboard is in the files beside this one: rows of panels as plain data.

/** What Grafana shows numbers in. `s`: seconds, `bytes`: KiB, MiB …, `percentunit`: a share as a percentage. */
export type PanelUnit =
  | 's'
  | 'bytes'
  | 'Bps'
  | 'percentunit'
  | 'short'
  | 'reqps'
  | 'rowsps'
  | 'dateTimeFromNow'
  | 'none';

export type Colour = 'green' | 'yellow' | 'orange' | 'red' | 'blue';

export interface PanelQuery {
  expr: string;
  /** Name of a series, with labels as {{label}}. */
  legend: string;
  /** One value instead of a line: for tables and single numbers. */
  instant?: boolean;
}

export interface Panel {
  title: string;
  /** What it shows and what is good or bad: read at night by somebody who sees it for the first time. */
  description: string;
  kind: 'lines' | 'stacked' | 'number' | 'bars' | 'table';
  unit: PanelUnit;
  queries: readonly PanelQuery[];
  /** From which value on which colour; the first is the colour below all. */
  thresholds: readonly [Colour, ...(readonly [from: number, Colour])[]];
  min?: number;
  max?: number;
  /** Of 24 columns; default: 8, a number 4. */
  width?: number;
}

/** A choice at the top of a dashboard: the values that a label has. */
export interface Choice {
  name: 'pipeline' | 'model' | 'column' | 'instance';
  /** A series that has the label for whatever can be chosen. */
  of: string;
}

export interface DashboardSpec {
  uid: string;
  title: string;
  description: string;
  choices: readonly Choice[];
  /** How far back it looks; default: six hours. */
  from?: string;
  rows: Readonly<Record<string, readonly Panel[]>>;
}

/** A query of lines. */
export const line = (expr: string, legend: string): PanelQuery => ({ expr, legend });
/** A query of one value. */
export const now = (expr: string, legend: string): PanelQuery => ({ expr, legend, instant: true });

/** Nothing about it is good or bad by itself. */
export const NEUTRAL = ['blue'] as const;
/** Good at 0 and bad above. */
export const NONE_IS_GOOD = ['green', [1, 'red']] as const;

// The text exposition format of Prometheus as numbers.
export interface Sample {
  name: string;
  labels: Readonly<Record<string, string>>;
  value: number;
}

/** Every sample of a text. @throws for a line that is none */
export function samplesOf(text: string): Sample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name, labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      if (name === undefined) throw new Error(`no sample: ${line}`);
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((m) => [m[1]!, m[2]!] as const);
      return { name, labels: Object.fromEntries(pairs), value: Number(value) };
    });
}

/** The sum of the samples of this name that have these labels; undefined where there is none. */
export function sampleOf(
  text: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = samplesOf(text).filter(
    (s) => s.name === name && Object.entries(labels).every(([label, value]) => s.labels[label] === value),
  );
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
}

/** Names of our own metric families in a text, with or without samples. */
export const familiesOf = (text: string): string[] =>
  [...text.matchAll(/^# TYPE (sluice_\w+) /gm)].map((m) => m[1]!).toSorted();

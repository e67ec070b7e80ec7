// Inputs with a canary somewhere: a text of an application that nobody may hear again.
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { asNative, asObjects } from './service.ts';

export const CANARY = 'Jane.Doe-77';
/** As it stands, or as a URL, a header or JSON would write it. */
export const SUNG = /jane.{0,3}doe/i;

export const clean = (delimiter: string): string[] =>
  Buffer.concat([...generatePortfolio({ rows: 3, seed: 3, delimiter, oddness: 'none' })])
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => line.split(delimiter).slice(1).join(delimiter));

/** Inputs of which nothing can be scored, with a canary somewhere. */
export function delimitedInputs(delimiter: string): [what: string, text: string][] {
  const [header, ...lines] = clean(delimiter);
  const names = header!.split(delimiter);
  const cells = lines[0]!.split(delimiter);
  const join = (parts: string[]): string => parts.join(delimiter);
  return [
    ...names.map((name, i): [string, string] => [name, `${header}\n${join(cells.with(i, CANARY))}\n`]),
    ['a quoted cell', `${header}\n${join(cells.with(1, `"${CANARY}`))}\n`],
    ['too many cells', `${header}\n${join([...cells, CANARY])}\n`],
    ['no header', `${join(cells.with(0, CANARY))}\n${lines[1]}\n`],
    ['nothing but a name', `${CANARY}\n${CANARY}\n`],
    ['NDJSON', `{"name":"${CANARY}","amount":1}\n`],
    ['JSON', `[{"${CANARY}":"${CANARY}"}]`],
    ...names.map((name, i): [string, string] => [`header ${name}`, `${join(names.with(i, CANARY))}\n${lines[0]}\n`]),
    ['one header cell more', `${header}${delimiter}${CANARY}\n${lines[0]}${delimiter}1\n`],
    ['two header cells more', `${join([header!, CANARY, CANARY])}\n${lines[0]}${delimiter}1${delimiter}2\n`],
  ];
}

export function jsonInputs(): [what: string, text: string][] {
  const [header, line] = clean(',');
  const [application] = asNative(asObjects(`${header}\n${line}\n`));
  const of = (more: object): string => JSON.stringify({ ...application, ...more });
  return [
    ...Object.keys(application!).map((name): [string, string] => [name, of({ [name]: CANARY })]),
    ['a key', of({ [CANARY]: 1 })],
    ['an object', of({ amount: { [CANARY]: CANARY } })],
    ['a text', JSON.stringify(CANARY)],
    ['no JSON', `{"amount": ${CANARY}}`],
    ['a cut text', `{"amount": "${CANARY}`],
    ['a header row', `name,${CANARY}`],
  ];
}

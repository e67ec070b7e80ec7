// The same values through the service: bodies of every format, single applications, forms, jobs, interpretations, tensors.
import * as flechette from '@uwdata/flechette';
import { parse } from 'csv-parse/sync';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { type Service, startService } from '../support/service.ts';
import { TIER } from '../support/tiers.ts';
import { until } from '../support/until.ts';
import { CARRIERS, isTable, type Table } from './types/carriers.ts';
import { type Answer, Crossing, cellOf, passedIn, tokenOf } from './types/crossing.ts';
import { bySpec, type Case, CELL_CASES, delimitedOf, JSON_VALUES, narrow, objectOf, PASSING, PLAIN, registryOfKinds, TOKEN_CASES, WIDE } from './types/entry-points.ts'; // biome-ignore format: one line
import { ALL, ALWAYS, constantOf, inputOf, type KindColumn } from './types/model.ts';
import { meaningOf, takesKind, type Value } from './types/rule.ts';
import { CELLS } from './types/texts.ts';

const crossing = new Crossing();
const kinds = registryOfKinds();
let service: Service;
beforeAll(async () => {
  service = await startService([], kinds.folder, { registry: new FolderRegistry([kinds.folder]), keep: true });
});
afterAll(async () => {
  await service.running.stop();
  await crossing.close();
  kinds.remove();
});

/** One in so many. */
const STEP = { quick: 97, check: 19, campaigns: 1 }[TIER];
const ONE = { quick: 13, check: 7, campaigns: 1 }[TIER];
/** A model for each takes time to load. */
const NARROW = TIER === 'campaigns' ? ALL : ALL.filter(({ name }) => ['number', 'code_marked'].includes(name)); // biome-ignore format: one line
const some = <T>(all: readonly T[], step: number, from = 0): T[] => all.filter((_, i) => (i + from) % step === 0);

const SCORING = '/api/v1/scoring';
const lines = (text: string): Answer[] => text.split('\n').filter(Boolean).map((line) => JSON.parse(line)); // biome-ignore format: one line
const delimited = (text: string, delimiter: string): Answer[] =>
  (parse(text, { columns: true, delimiter }) as Record<string, string>[]).map(({ value, error_code: code }) =>
    code ? { error: { code } } : { value: Number(value) },
  );

function differences(cases: readonly Case[], answers: readonly Answer[], label: string): string[] {
  return bySpec(cases, answers).flatMap(([spec, values, own]) =>
    crossing.compare(own, spec, PLAIN, { name: `${label} as ${spec.name}`, values }),
  );
}

/** The result of a job with this body. */
async function job(format: string, body: string, query = ''): Promise<string> {
  const url = `${SCORING}/predict.${format}?modelId=${WIDE}${query}`;
  const { headers } = await service.call('POST', url, { body, headers: { prefer: 'respond-async' } });
  const location = headers.location as string;
  await until(async () => (await service.call('GET', location)).json.state === 'done');
  const { text } = await service.call('GET', `${location}/result`);
  await service.call('DELETE', location);
  return text;
}

test('tokens of JSON in an array, in lines, in a form, in jobs', async () => {
  const objects = TOKEN_CASES.map(objectOf);
  const array = `[${objects.join(',')}]`;
  const url = (format: string) => `${SCORING}/predict.${format}?modelId=${WIDE}`;
  const inArray = await service.call('POST', url('json'), { body: array });
  expect(differences(TOKEN_CASES, inArray.json.predictions, 'array')).toEqual([]);
  const inLines = await service.call('POST', url('ndjson'), { body: objects.join('\n') });
  expect(differences(TOKEN_CASES, lines(inLines.text), 'lines')).toEqual([]);
  const form = `--b\r\ncontent-disposition: form-data; name="file"; filename="a.json"\r\ncontent-type: application/json\r\n\r\n${array}\r\n--b--\r\n`;
  const inForm = await service.call('POST', url('json'), { body: form, headers: { 'content-type': 'multipart/form-data; boundary=b' } }); // biome-ignore format: one line
  expect(differences(TOKEN_CASES, inForm.json.predictions, 'form')).toEqual([]);
  expect(differences(TOKEN_CASES, JSON.parse(await job('json', array)).predictions, 'job')).toEqual([]);
  expect(differences(TOKEN_CASES, lines(await job('ndjson', objects.join('\n'))), 'job of lines')).toEqual([]);
});

test('tokens of JSON in single applications', async () => {
  const cases = some(TOKEN_CASES, ONE);
  const answers: Answer[] = [];
  for (const c of cases) {
    const { status, json } = await service.call('POST', `${SCORING}/predict.json?modelId=${WIDE}`, { body: objectOf(c) }); // biome-ignore format: one line
    // An application that is rejected is all of its request.
    answers.push(status === 200 ? json.predictions[0] : { error: json.errors[0] });
  }
  expect(differences(cases, answers, 'alone')).toEqual([]);
});

const MARKS = { tab: '\t', comma: ',', semicolon: ';', pipe: '|' };
test.each(Object.entries(MARKS))('cells of CSV with the delimiter %s', async (name, mark) => {
  const body = delimitedOf(CELL_CASES, mark);
  const query = `&delimiter=${name}`;
  const { text } = await service.call('POST', `${SCORING}/predict.csv?modelId=${WIDE}${query}`, { body });
  expect(differences(CELL_CASES, delimited(text, mark), name)).toEqual([]);
  if (name !== 'semicolon' && name !== 'tab') return;
  const result = await job('csv', body, name === 'tab' ? '' : query);
  expect(differences(CELL_CASES, delimited(result, mark), `job with ${name}`)).toEqual([]);
});

/** The types of tensors that a value may have in the Open Inference Protocol, with its element in JSON. */
function tensorsOf(value: Value, token: string): [datatype: string, element: string][] {
  if (value === null) return [['FP64', 'null'], ['BYTES', 'null'], ['BOOL', 'null'], ['INT32', 'null']]; // biome-ignore format: one line
  if ('b' in value) return [['BOOL', token]];
  if ('t' in value) return [['BYTES', token]];
  if ('o' in value) return [];
  const isWhole = /^-?\d+$/.test(value.n) && BigInt.asIntN(64, BigInt(value.n)) === BigInt(value.n) && token !== '-0';
  return [['FP64', token], ...(isWhole ? [['INT64', token] as [string, string]] : [])];
}

test('tensors of the Open Inference Protocol', async () => {
  const found: string[] = [];
  for (const c of some(TOKEN_CASES, ONE * 2)) {
    for (const [datatype, element] of tensorsOf(c.value, c.token)) {
      const others = ALL.filter((column) => column !== c.spec).map((column) => {
        const text = constantOf(column);
        return column.kind === 'number' ? `{"name": "${column.name}", "shape": [1], "datatype": "FP64", "data": [0]}` : `{"name": "${column.name}", "shape": [1], "datatype": "BYTES", "data": [${JSON.stringify(text)}]}`; // biome-ignore format: one line
      });
      const own = `{"name": "${c.spec.name}", "shape": [1], "datatype": "${datatype}", "data": [${element}]}`;
      const body = `{"inputs": [${own}, ${others.join(', ')}, {"name": "${ALWAYS}", "shape": [1], "datatype": "INT64", "data": [1]}]}`;
      const { status, json } = await service.call('POST', `/v2/models/${WIDE}/infer`, { body });
      const code = json.code === 'invalid_row' ? json.errors[0].code : json.code;
      const answer = status === 200 ? { value: json.outputs[0].data[0] } : { error: { code } };
      const label = `${datatype} as ${c.spec.name}`;
      // A tensor has a type, which is compared with the column before its values.
      const kind = { FP64: 'number', INT64: 'number', INT32: 'number', BOOL: 'boolean', BYTES: 'text' }[datatype]!;
      if (takesKind({ ...c.spec, input: inputOf(c.spec) }, kind as 'number', PLAIN))
        found.push(...crossing.compare([answer], c.spec, PLAIN, { name: label, values: [c.value] }));
      else if (code !== 'bad_type') found.push(`${label}: ${c.token} is not refused`);
    }
  }
  expect(found).toEqual([]);
});

const TABLES: readonly Table[] = CARRIERS.filter(isTable);
const PATHS = { arrow: ['predict/table.ndjson', 'predict.arrow', 'predict/interpretation/table.ndjson', 'predict/interpretation.arrow'], parquet: ['predict/table.ndjson', 'predict/interpretation/table.ndjson'] }; // biome-ignore format: one line

const column = (bytes: Buffer, name: string): unknown[] => {
  const found = flechette.tableFromIPC(new Uint8Array(bytes)).getChild(name);
  return found ? [...found] : [];
};
const answersIn = (bytes: Buffer, url: string): Answer[] => {
  if (url.endsWith('ndjson')) return lines(bytes.toString());
  const codes = column(bytes, 'error_code') as (string | null)[];
  const values = column(bytes, 'value') as number[];
  return codes.map((code, i) => (code === null ? { value: values[i]! } : { error: { code } }));
};

async function scoredTable(table: Table, spec: KindColumn, url: string): Promise<string[]> {
  const label = `${table.name} as ${spec.name} to ${url}`;
  const body = Buffer.from(table.file, 'base64');
  const { status, bytes, json } = await service.call('POST', `${SCORING}/${url}?modelId=${narrow(spec)}`, { body });
  const typed = { ...spec, input: inputOf(spec) };
  if (!takesKind(typed, table.kind, PLAIN)) {
    return status === 400 && ['bad_type', 'header_mismatch'].includes(json.code) ? [] : [`${label}: is not refused`];
  }
  if (status === 400 && json.code === 'nothing_scored') {
    const isRight = table.values.every((value) => 'code' in meaningOf(value, typed, PLAIN));
    return isRight ? [] : [`${label}: nothing is scored`];
  }
  if (status !== 200) return [`${label}: ${json.code}`];
  return crossing.compare(answersIn(bytes, url), spec, PLAIN, { name: label, values: table.values });
}

test('carriers in bodies of Arrow and Parquet', async () => {
  const found: string[] = [];
  for (const [c, spec] of NARROW.entries()) {
    for (const [i, table] of some(TABLES, STEP, c).entries()) {
      const urls = PATHS[table.format];
      const chosen = TIER === 'campaigns' ? urls : [urls[(i + c) % urls.length]!];
      for (const url of chosen) found.push(...(await scoredTable(table, spec, url)));
    }
  }
  expect(found).toEqual([]);
});

test('carriers and tokens that are passed through', async () => {
  const found: string[] = [];
  const compare = (label: string, got: readonly (string | null)[], wanted: readonly (string | null)[]): void => {
    if (got.length !== wanted.length) found.push(`${label}: ${got.length} rows instead of ${wanted.length}`);
    for (const [row, want] of wanted.entries())
      if (want !== got[row]) found.push(`${label}: ${got[row]} instead of ${want}`);
  };
  const query = `modelId=${PASSING}&passthrough=x`;
  const tokens = JSON_VALUES.map(([token]) => token);
  const objects = tokens.map((token, row) => `{"row": ${row}, "x": ${token}}`);
  for (const [format, body] of [['json', `[${objects.join(',')}]`], ['ndjson', objects.join('\n')]] as const) {
    const { bytes } = await service.call('POST', `${SCORING}/predict.${format}?${query}`, { body });
    compare(format, await passedIn(bytes, format), tokens);
  } // biome-ignore format: one line
  for (const [i, body] of objects.entries()) {
    const { bytes } = await service.call('POST', `${SCORING}/predict.json?${query}`, { body });
    compare('alone', await passedIn(bytes, 'json'), [tokens[i]!]);
  }
  const cells = CELLS.map(({ t }, row) => `"${t.replaceAll('"', '""')}"\t${row}\n`).join('');
  const { bytes } = await service.call('POST', `${SCORING}/predict.csv?${query}`, { body: `x\trow\n${cells}` });
  compare('csv', await passedIn(bytes, 'tsv'), CELLS.map(({ t }) => cellOf(JSON.stringify(t), 'tsv'))); // biome-ignore format: one line
  for (const [i, table] of some(
    TABLES.filter(({ kind }) => kind !== 'nested'),
    Math.ceil(STEP / 2),
  ).entries()) {
    const url = ['predict/table.ndjson', 'predict.arrow'][table.format === 'arrow' ? i % 2 : 0]!;
    const answer = await service.call('POST', `${SCORING}/${url}?${query}`, {
      body: Buffer.from(table.file, 'base64'),
    });
    const wanted = table.values.map((value) => tokenOf(value, table));
    if (url.endsWith('ndjson')) compare(table.name, await passedIn(answer.bytes, 'ndjson'), wanted);
    else compare(`${table.name} to Arrow`, column(answer.bytes, 'x') as string[], wanted.map((token) => cellOf(token, 'arrow'))); // biome-ignore format: one line
  }
  expect(found).toEqual([]);
});

// A header row that does not fit is told in a few words, however much of it there is.
import { expect, test } from 'vitest';
import { fitHeader, splitHeader } from '../../../src/io/decode/header.ts';
import { MANIFEST } from '../../support/decoding.ts';

const fault = (header: string, maxColumns = 2000) => {
  try {
    fitHeader(Buffer.from(header), { manifest: MANIFEST as never, delimiter: ',', passthrough: [], maxColumns });
  } catch (error) {
    return error as { code: string; message: string; details: { code: string; column?: string }[] };
  }
  return expect.unreachable();
};

test('names outside the model are told up to twenty, the first characters of each, and counted', () => {
  const names = Array.from({ length: 500 }, (_, i) => `${'n'.repeat(1000)}${i}`);
  const { code, message, details } = fault(names.join(','));
  expect(code).toBe('header_mismatch');
  const unexpected = details.filter((d) => d.code === 'unexpected_column');
  expect(unexpected).toHaveLength(21);
  for (const d of unexpected.slice(0, 20)) expect(d.column).toBe(`${'n'.repeat(64)}…`);
  expect(message).toContain('and 480 more names like that');
  expect(message.length).toBeLessThan(20_000);
});

test('every column of the model that is missing is told', () => {
  const { details } = fault('x');
  const missing = details.filter((d) => d.code === 'missing_column').map((d) => d.column);
  expect(missing).toEqual(MANIFEST.columns.map((c) => c.name));
});

test('columns beyond the limit are counted, not compared', () => {
  expect(fault('a,'.repeat(500_000)).code).toBe('limit_exceeded');
});

test.each(['', 'a', 'a,b', ',', 'a,"b,c"', ' a ,b', '"a""b",c', 'é,🂡'])(
  '%j is split as csv-parse does it',
  (header) => {
    const quoted = header.includes('"') ? header : header && `"${header.replaceAll(',', '","')}"`;
    expect(splitHeader(Buffer.from(header), ',')).toEqual(splitHeader(Buffer.from(quoted), ','));
  },
);

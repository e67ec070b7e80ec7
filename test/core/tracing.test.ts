// The context of a trace as W3C writes it: https://www.w3.org/TR/trace-context/#traceparent-header
import { expect, test } from 'vitest';
import { parseTraceparent, traceparentOf } from '../../src/core/tracing.ts';

const [ID, SPAN] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];

test.each([
  [`00-${ID}-${SPAN}-01`, true],
  [`00-${ID}-${SPAN}-00`, false],
  [`00-${ID}-${SPAN}-03`, true],
  [`01-${ID}-${SPAN}-01-what-comes-later`, true],
])('%s', (text, sampled) => {
  expect(parseTraceparent(text)).toEqual({ traceId: ID, spanId: SPAN, sampled });
  expect(traceparentOf(parseTraceparent(text)!)).toBe(`00-${ID}-${SPAN}-0${Number(sampled)}`);
});

test.each([
  undefined,
  '',
  'Jane.Doe-77',
  `ff-${ID}-${SPAN}-01`,
  `00-${'0'.repeat(32)}-${SPAN}-01`,
  `00-${ID}-${'0'.repeat(16)}-01`,
  `00-${ID.toUpperCase()}-${SPAN}-01`,
  `00-${ID}-${SPAN}-01-more`,
  `00-${ID}-${SPAN}`,
  `00-${ID.slice(1)}-${SPAN}-01`,
  ` 00-${ID}-${SPAN}-01`,
  `01-${ID}-${SPAN}-01-${'x'.repeat(600)}`,
])('%s is none', (text) => expect(parseTraceparent(text)).toBeNull());

// The builder of schemas makes what typebox makes, and its checks decide what typebox decides.

import { type TSchema, Type as TypeBox } from 'typebox';
import { Value } from 'typebox/value';
import { expect, test } from 'vitest';
import { fits, Type } from '../../src/config/schema.ts';
import { ManifestSchema } from '../../src/model/package/manifest.ts';
import fc from '../support/seeded-fast-check.ts';

/** All of a schema, with the marks of typebox that are not enumerable. */
function whole(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(whole);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.getOwnPropertyNames(value).map((k) => [k, whole((value as never)[k])]));
}

/** A schema with every function of the builder. */
const every = (T: typeof Type): TSchema =>
  T.Object(
    {
      text: T.String({ minLength: 2, pattern: '^[a-zé😀]*$' }),
      whole: T.Optional(T.Integer({ minimum: 1, maximum: 3 })),
      number: T.Optional(T.Number({ exclusiveMinimum: 0, default: 1 })),
      flag: T.Optional(T.Boolean()),
      list: T.Optional(T.Array(T.Union([T.String(), T.Literal(3)]), { minItems: 1 })),
      pair: T.Optional(T.Tuple([T.Number(), T.Enum(['a', 'b'])])),
      any: T.Optional(T.Record(T.String(), T.Integer(), { description: 'by name' })),
      named: T.Optional(T.Record(T.String({ pattern: '^x' }), T.Boolean(), { additionalProperties: false })),
      word: T.Optional(T.Unsafe<'c'>(T.Enum(['c'], { description: 'a word' }))),
      open: T.Optional(T.Object({})),
    },
    { additionalProperties: false, description: 'everything' },
  );

const SCALARS = ['', 'a', 'ab', 'é', '😀', '😀😀', 'a\nb', 'c', 3, 0, 1, 4, 1.5, -1, true, null];
const scalar = fc.constantFrom<unknown>(...SCALARS, Number.NaN);
const part = fc.oneof(
  scalar,
  fc.array(scalar, { maxLength: 3 }),
  fc.dictionary(fc.constantFrom('x', 'xy', 'y', 'line\nend'), scalar),
);

test('the builder makes the schemas of typebox', () => {
  expect(whole(every(Type))).toEqual(whole(every(TypeBox)));
  expect(Object.keys(every(Type))).toEqual(Object.keys(every(TypeBox)));
});

test('a value fits where typebox accepts it', () => {
  const schema = every(Type);
  const keys = [...Object.keys((schema as unknown as { properties: object }).properties), 'unknown'];
  const value = fc.oneof(
    part,
    fc.dictionary(fc.constantFrom(...keys), part).chain((known) => fc.constantFrom(known, { text: 'ab', ...known })),
  );
  let accepted = 0;
  fc.assert(
    fc.property(value, (v) => {
      const expected = Value.Check(schema, v);
      if (expected) accepted++;
      expect(fits(schema, v)).toBe(expected);
    }),
    { numRuns: 3000 },
  );
  expect(accepted).toBeGreaterThan(50);
});

test('an unknown keyword is an error, not a schema that accepts too much', () => {
  expect(() => fits({ type: 'string', format: 'date' } as TSchema, 'x')).toThrow('the keyword format has no check');
  expect(fits(ManifestSchema, {})).toBe(false);
});

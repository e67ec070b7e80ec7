// What a line of the log can hold: nothing that was not spelled out by the program, its configuration or a registry.

import { expect, test } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import {
  faultFields,
  fixedWord,
  framesOf,
  idOf,
  type Log,
  named,
  saysOf,
  type Word,
  words,
} from '../../src/core/log.ts';
import fc from '../support/seeded-fast-check.ts';

const CANARY = 'Jane.Doe-77';

test('a plain text is refused by the compiler, wherever a line could take it', () => {
  let calls = 0;
  const log: Log = () => calls++;
  const cell = String(CANARY);
  // @ts-expect-error a text is no word
  log('info', 'request', cell);
  // @ts-expect-error nor is a field
  log('info', 'request', words`x`, { name: cell });
  // @ts-expect-error nor in a list
  log('info', 'request', words`x`, { names: [cell] });
  // @ts-expect-error nor within words
  log('info', 'request', words`row of ${cell}`);
  // @ts-expect-error nor as a fixed word
  log('info', 'request', fixedWord(cell));
  // @ts-expect-error nor put together
  log('info', 'request', fixedWord(`row of ${cell}`));
  // @ts-expect-error nor an error, whose message may quote it
  log('info', 'request', words`x`, { error: new Error(cell) });
  // @ts-expect-error nor an event that the table does not have
  log('info', 'no_such_event', words`x`);
  log('info', 'request', words`${1} ${fixedWord('done')}`, { code: 'internal_error', rows: 1, words: [words`x`] });
  // The compiler has checked them: an error that is expected and does not occur is an error.
  expect(calls).toBe(9);
});

/** What throws an error whose message holds the canary, in all forms that were seen. */
const FAULTS: Record<string, () => unknown> = {
  'JSON.parse': () => JSON.parse(`{"name": ${CANARY}}`),
  'a message of several lines that look like frames': () => {
    throw new Error(`first\n    at ${CANARY} (${CANARY}.ts:1:1)\n    at ${CANARY}`);
  },
  'a message that was changed later': () => {
    throw Object.assign(new Error(`  at ${CANARY}`), { message: `\n    at ${CANARY}` });
  },
  'a name': () => {
    throw Object.assign(new Error('x'), { name: `${CANARY} ` });
  },
  'a code': () => {
    throw Object.assign(new Error('x'), { code: CANARY });
  },
  'a cause': () => {
    throw new Error('x', { cause: new TypeError(CANARY) });
  },
  'a text': () => {
    throw CANARY;
  },
  'a stack that was written over': () => {
    throw Object.assign(new Error(CANARY), { stack: `Error: other\n    at ${CANARY}` });
  },
  'a known error of an input': () => {
    throw new SluiceError('malformed_json', CANARY);
  },
  'a known error with a foreign cause': () => {
    throw new SluiceError('output_failed', 'the disk', { cause: new Error(CANARY) });
  },
  'a bug with a foreign sentence': () => {
    throw new SluiceError('model_failed', `ONNX Runtime: ${CANARY}`, { cause: new Error(CANARY) });
  },
};

test.each(Object.entries(FAULTS))('of an error nobody foresaw, %s is not told', (_, fault) => {
  let error: unknown;
  try {
    fault();
  } catch (e) {
    error = e;
  }
  expect(error).toBeDefined();
  expect(JSON.stringify([saysOf(error), faultFields(error), framesOf(error)])).not.toMatch(/jane|doe/i);
});

test('no message gets into the frames, whatever it looks like', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('\n', '    at ', CANARY, ' (a.ts:1:1)', 'Error: ', '\n    at '), { maxLength: 12 }),
      (parts) => {
        const frames = framesOf(new TypeError(parts.join('')));
        expect(frames.join()).not.toContain(CANARY);
        expect(frames[0]).toMatch(/log\.test\.ts/);
      },
    ),
    { numRuns: 300 },
  );
});

test('an id is visible ASCII of at most 128 characters; a name has no line ends', () => {
  expect(idOf('a-b_c.1/2:3')).toBe('a-b_c.1/2:3');
  for (const text of ['', ' ', 'a b', 'ä', 'a\n', 'a\u0000', 'x'.repeat(129), undefined]) expect(idOf(text)).toBeNull();
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => !/\p{Cc}/u.test(named(text))));
  const joined: Word = words`a ${2}${true} ${named('b\nc')}`;
  expect(joined).toBe('a 2true b c');
});

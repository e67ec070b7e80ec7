// The JSON answer around an array of predictions: who made them in front, their counts behind.
import { SluiceError } from '../core/errors.ts';
import type { Chunks } from '../io/source/byte-source.ts';

/** Bytes in which the array has to begin. */
const HEAD_BYTES = 64 * 1024;
/** Bytes behind the array: it holds three numbers. */
const TAIL_BYTES = 1024;
const OPEN_OBJECT = 123;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;

/** The members of an answer but its predictions. */
export interface AnswerEnvelope {
  modelId?: unknown;
  modelVersion?: unknown;
  summary?: { rows?: unknown };
}

/**
 * The bytes of the array in a JSON answer; JSON that is no answer passes as it is. `envelope` is filled while the bytes are read: with
 * the model before the first of them, with the summary behind the last.
 * @throws SluiceError truncated_input: the answer has no end
 */
export async function* predictionsOf(
  name: string,
  chunks: Chunks,
  envelope: AnswerEnvelope,
): AsyncGenerator<Uint8Array> {
  /** The first bytes, until it is known what they are. */
  let head: Buffer | null = Buffer.alloc(0);
  let isAnswer = false;
  let held: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    let bytes: Buffer = Buffer.from(chunk);
    if (head) {
      head = Buffer.concat([head, bytes]);
      const begin = beginOf(head, envelope);
      if (begin === null && head.length < HEAD_BYTES) continue;
      isAnswer = begin !== null && begin > 0;
      bytes = head.subarray(begin ?? 0);
      head = null;
    }
    if (!isAnswer) {
      yield bytes;
      continue;
    }
    held = Buffer.concat([held, bytes]);
    if (held.length > TAIL_BYTES) {
      yield held.subarray(0, held.length - TAIL_BYTES);
      held = held.subarray(held.length - TAIL_BYTES);
    }
  }
  if (!isAnswer) yield head ?? held;
  else yield held.subarray(0, endOf(name, held, envelope));
}

/** Where the array begins; 0: there is no answer around it; null: too few bytes have come to tell. */
function beginOf(head: Buffer, envelope: AnswerEnvelope): number | null {
  const first = head.findIndex((c) => c > 32 && c !== 0xef && c !== 0xbb && c !== 0xbf);
  if (first < 0) return null;
  if (head[first] !== OPEN_OBJECT) return 0;
  const key = head.indexOf('"predictions"');
  const begin = key < 0 ? -1 : head.indexOf(OPEN_ARRAY, key);
  if (begin < 0) return null;
  const members = parsed(`${head.toString('utf8', first, begin)}[]}`);
  if (members?.modelId === undefined) return 0;
  Object.assign(envelope, members);
  return begin;
}

/** One past the end of the array. */
function endOf(name: string, tail: Buffer, envelope: AnswerEnvelope): number {
  const end = tail.lastIndexOf(CLOSE_ARRAY) + 1;
  const rest = tail.toString('utf8', end).trim();
  const members = rest.startsWith(',') ? parsed(`{${rest.slice(1)}`) : null;
  if (end === 0 || !members?.summary)
    throw new SluiceError('truncated_input', `${name} has no summary at its end: it is cut off`);
  envelope.summary = members.summary;
  return end;
}

function parsed(text: string): AnswerEnvelope | null {
  try {
    return JSON.parse(text) as AnswerEnvelope;
  } catch {
    return null;
  }
}

// A model that `train.py` wrote, evaluated by the interpreter and by the compiled evaluator, against the library's own predictions.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type BoosterModel, boosterOutput } from '../../../src/inference/boosters/booster.ts';
import { catBoostHash } from '../../../src/inference/boosters/city-hash.ts';
import { interpret } from '../../../src/inference/boosters/interpreter.ts';
import { readModel } from '../../../src/inference/boosters/read-model.ts';
import type { EncodedInput } from '../../../src/inference/encode/encoder.ts';
import { openNative } from '../../../src/inference/evaluate/native/native-evaluator.ts';
import { planNative } from '../../../src/inference/evaluate/native/native-plan.ts';

interface About {
  file: string;
  columns: number;
  /** A part of the message that rejects the model. */
  rejected?: string;
  tolerance: number;
  /** Column → texts of its categories. */
  texts?: Record<string, string[]>;
  names?: string[];
}

export interface BoosterCase {
  about: About;
  bytes: Buffer;
}

export function readCase(folder: string): BoosterCase {
  const about = JSON.parse(readFileSync(path.join(folder, 'about.json'), 'utf8')) as About;
  return { about, bytes: readFileSync(path.join(folder, about.file)) };
}

const numbers = (file: string): Float64Array => {
  const bytes = readFileSync(file);
  return new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};

interface Compared {
  /** Predictions of the interpreter and of the compiled evaluator. */
  interpreted: Float32Array | Float64Array;
  compiled: Float32Array | Float64Array;
  /** In the precision in which the library computes. */
  expected: Float32Array | Float64Array;
}

/** @throws SluiceError model_invalid | Unsupported */
export function evaluateCase(folder: string): Compared {
  const { about, bytes } = readCase(folder);
  const model = readModel(bytes) as BoosterModel;
  const { booster } = model;
  const features = numbers(path.join(folder, 'features'));
  const width = about.columns;
  for (const [name, texts] of Object.entries(about.texts ?? {})) {
    const at = about.names!.indexOf(name);
    const { codeOfHash } = booster.categories.find((l) => l.feature === at)!;
    for (const [r, text] of texts.entries()) features[r * width + at] = codeOfHash!.get(catBoostHash(text)) ?? -1;
  }
  const data = booster.compared === 'float32' ? Float32Array.from(features) : features;
  const input: EncodedInput = { name: 'features', type: booster.compared, width, data };
  const rows = features.length / width;
  const native = openNative(planNative(model, boosterOutput(booster), [input]));
  const expected = numbers(path.join(folder, 'expected'));
  return {
    interpreted: interpret(booster, [input], 0, rows),
    compiled: native.scoreNow([input], rows).values,
    expected: booster.computed === 'float32' ? Float32Array.from(expected) : expected,
  };
}

/** Largest difference, relative for predictions above 1. */
export const largestDifference = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let largest = a.length === b.length ? 0 : Infinity;
  for (let i = 0; i < a.length; i++) {
    const difference = Math.abs(a[i]! - b[i]!) / Math.max(1, Math.abs(b[i]!));
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
};

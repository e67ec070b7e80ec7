// The messages between a probe and its process.
import type { ErrorCode } from '../../core/errors.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import type { EnginePolicy, Verdict } from '../evaluate/choose-evaluator.ts';
import type { NativePlan } from '../evaluate/native/native-plan.ts';
import type { OutputTensor, SessionInput } from '../evaluate/session.ts';

/** `verdict`: a large model is compiled and opened in ONNX Runtime side by side; `plan`: one after the other, in less memory. */
export type ProbeAim = 'plan' | 'verdict';

export type ProbeRequest =
  | { type: 'open'; bytes: Uint8Array }
  | { type: 'run'; inputs: readonly EncodedInput[]; ranges: readonly (readonly [number, number])[]; outputs: string[] }
  | { type: 'verdict'; model: ModelPackage; policy: EnginePolicy; priority: ProbeAim }
  | { type: 'bench'; inputs: readonly EncodedInput[]; rows: number; outputs: string[]; ms: number };

export interface ProbeOpened {
  inputs: readonly SessionInput[];
  outputs: readonly string[];
  /** Milliseconds of loading. */
  loadMs: number;
  /** Bytes the process grew by loading. */
  memoryBytes: number;
}

export type ProbeAnswer =
  | { type: 'ready' }
  | ({ type: 'opened' } & ProbeOpened)
  | { type: 'ran'; results: OutputTensor[][] }
  | { type: 'compiled'; plan: NativePlan }
  | { type: 'judged'; verdict: Verdict }
  | { type: 'benched'; rowsPerSecond: number; memoryBytes: number }
  | { type: 'failed'; code: ErrorCode; message: string };

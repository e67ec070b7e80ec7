// MLAS, ONNX Runtime's arithmetic library, operation by operation where its results are served: the logistic function.

const f = Math.fround;
/** a·b + c rounded once: the product of two float32 is exact in double. */
const fma = (a: number, b: number, c: number): number => f(a * b + c);

const [A9, A7, A5, A3, A1] = [
  4.37031012579801e-11, 1.15627324459942e-7, 6.08574864600143e-5, 8.51377133304701e-3, 2.48287947061529e-1,
].map(f) as [number, number, number, number, number];
const [B10, B8, B6, B4, B2, B0] = [
  6.10247389755681e-13, 5.76102136993427e-9, 6.2910678501704e-6, 1.70198817374094e-3, 1.16817656904453e-1,
  9.9315192102318e-1,
].map(f) as [number, number, number, number, number, number];

/**
 * 1 / (1 + e^-x) as MlasComputeLogistic has it on processors with fused multiply-add: a rational function of x, within
 * 2e-7 of the truth. Source: onnxruntime/core/mlas/lib/logistic.cpp.
 */
export function mlasLogistic(x: number): number {
  const v = x < -18 ? -18 : x > 18 ? 18 : x;
  const s = f(v * v);
  let p = fma(s, A9, A7);
  p = fma(p, s, A5);
  p = fma(p, s, A3);
  p = fma(p, s, A1);
  p = f(p * v);
  let q = fma(s, B10, B8);
  q = fma(q, s, B6);
  q = fma(q, s, B4);
  q = fma(q, s, B2);
  q = fma(q, s, B0);
  const y = f(f(p / q) + 0.5);
  return y < 0 ? 0 : y > 1 ? 1 : y;
}

// Link functions that exporters are known to leave out: what the graph answers instead of the prediction, and what undoes it.

export const LINKS: readonly (readonly [words: string, undo: (v: number) => number])[] = [
  ['its logarithm (some exporters of Poisson, gamma and Tweedie models leave the exponential out)', Math.exp],
  ['its log1p', Math.expm1],
  ['its square root (LightGBM reg_sqrt)', (v) => v * v],
  ['its log-odds (XGBoost reg:logistic is exported without the sigmoid)', (v) => 1 / (1 + Math.exp(-v))],
];

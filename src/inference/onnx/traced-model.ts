// A traced model as plain data: features → head → output steps.
import type { Feature, FeatureType, RealType } from './feature.ts';
import type { Node } from './graph.ts';

/** What happens to the model's scores on the way to the output. */
export type OutputStep =
  | { op: 'sigmoid' | 'softmax' | 'l1'; type: RealType }
  | { op: 'column'; column: number }
  | { op: 'add' | 'mul'; by: number; type: RealType }
  | { op: 'cast'; type: RealType };

export interface LinearHead {
  kind: 'linear';
  /** Row-major, `targets` rows of one coefficient a feature. */
  coefficients: readonly number[];
  intercepts: readonly number[];
  targets: number;
  type: RealType;
  /** LinearClassifier with one row of coefficients for two classes: a second column is added. */
  secondClass: boolean;
  postTransform: string;
}
interface TreesHead {
  kind: 'trees';
  node: Node;
}

/** The whole of a traced model: features → head → output steps. */
export interface Trace {
  /** `features[j]` is what the head sees as feature j. */
  features: readonly Feature[];
  /** Type in which the features reach the head. */
  type: FeatureType;
  head: TreesHead | LinearHead;
  /** In the order in which they are applied. */
  output: readonly OutputStep[];
}

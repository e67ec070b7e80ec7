// Text files as LightGBM saves its models.

export interface Feature {
  name: string;
  /** The entry of feature_infos. */
  info: string;
  isUnused?: boolean;
}

/**
 * A model of LightGBM with a tree for each used feature. `lists`: the text of pandas_categorical. `parameters`: lines
 * such as [use_missing: 1].
 */
export const lightGbm = (features: readonly Feature[], lists: string, parameters: readonly string[] = []): string =>
  [
    'tree',
    'version=v4',
    'num_class=1',
    'num_tree_per_iteration=1',
    `max_feature_idx=${features.length - 1}`,
    'objective=regression',
    `feature_names=${features.map((f) => f.name).join(' ')}`,
    `feature_infos=${features.map((f) => f.info).join(' ')}`,
    '',
    ...features.flatMap(({ isUnused, info }, i) => [
      `Tree=${i}`,
      ...(isUnused ? ['num_leaves=1', 'leaf_value=1'] : splitTree(i, info)),
      '',
    ]),
    'end of trees',
    '',
    ...parameters,
    `pandas_categorical:${lists}`,
    '',
  ].join('\n');

const splitTree = (feature: number, info: string): string[] => [
  'num_leaves=2',
  ...(info.startsWith('[')
    ? ['num_cat=0', 'threshold=0.5', 'decision_type=2']
    : ['num_cat=1', 'cat_boundaries=0 1', 'cat_threshold=1', 'threshold=0', 'decision_type=1']),
  `split_feature=${feature}`,
  'left_child=-1',
  'right_child=-2',
  'leaf_value=0 1',
];

// The schema of model.yaml. The type, the validation and the reference page are derived from it.
import type { Static } from 'typebox';
import { Type } from '../../config/schema.ts';

const closed = { additionalProperties: false };
const literals = <V extends string>(...values: V[]) => Type.Unsafe<V>(Type.Enum(values));
const label = Type.Union([Type.String(), Type.Integer(), Type.Boolean()]);
/** A value for the model. */
const scalar = Type.Union([Type.Number(), Type.String(), Type.Boolean()], {
  description:
    'put it in quotes if the model takes text: YAML would read 1.50 as 1.5 and True as true, which is rejected',
});
const counts = Type.Record(Type.String(), Type.Integer());

const MissingSchema = Type.Object(
  {
    values: Type.Optional(
      Type.Array(Type.String(), { description: 'texts that mean missing; default: the empty text' }),
    ),
    as: Type.Optional(literals('nan', 'value', 'category', 'error')),
    value: Type.Optional(scalar),
  },
  {
    ...closed,
    description: 'which texts count as missing, and what the model receives instead; as: error rejects the row',
  },
);

const ColumnSchema = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    kind: literals('number', 'boolean', 'category', 'text'),
    missing: Type.Optional(MissingSchema),
    codes: Type.Optional(
      Type.Record(Type.String(), Type.Number(), { description: 'category → number the model was trained with' }),
    ),
    values: Type.Optional(
      Type.Array(Type.String(), { description: 'known categories, if the model takes the text itself' }),
    ),
    codes_file: Type.Optional(
      Type.String({ minLength: 1, description: 'the codes, as a CSV of the package with the header `value,code`' }),
    ),
    values_file: Type.Optional(
      Type.String({ minLength: 1, description: 'the values, as a CSV of the package with the header `value`' }),
    ),
    unseen: Type.Optional(literals('error', 'missing', 'value')),
    unseen_value: Type.Optional(scalar),
    true_values: Type.Optional(Type.Array(Type.String())),
    false_values: Type.Optional(Type.Array(Type.String())),
    true_as: Type.Optional(scalar),
    false_as: Type.Optional(scalar),
    range: Type.Optional(
      Type.Union([
        Type.Tuple([Type.Number(), Type.Number()]),
        Type.Object({ min: Type.Optional(Type.Number()), max: Type.Optional(Type.Number()) }, closed),
      ]),
    ),
    input: Type.Optional(Type.String()),
    description: Type.Optional(Type.String()),
  },
  closed,
);

const InputSchema = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    type: literals('float32', 'float64', 'int64', 'int32', 'bool', 'string'),
    columns: Type.Optional(
      Type.Array(Type.String(), { minItems: 1, description: 'a matrix: these columns in this order' }),
    ),
    column: Type.Optional(Type.String({ description: 'one input per column, shape [rows, 1]' })),
  },
  closed,
);

const ColumnBaselineSchema = Type.Object(
  {
    edges: Type.Optional(Type.Array(Type.Number())),
    counts: Type.Union([Type.Array(Type.Integer()), counts]),
    missing: Type.Optional(Type.Integer()),
    unseen: Type.Optional(Type.Integer()),
    min: Type.Optional(Type.Number()),
    max: Type.Optional(Type.Number()),
  },
  closed,
);

export const ManifestSchema = Type.Object(
  {
    id: Type.String({ pattern: '^[a-z0-9][a-z0-9._-]{0,99}$' }),
    version: Type.Union([Type.Integer({ minimum: 1 }), Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' })]),
    task: literals('binary', 'multiclass', 'regression', 'score'),
    description: Type.Optional(Type.String()),
    outcome: Type.Optional(Type.String()),
    positive_class: Type.Optional(label),
    classes: Type.Optional(Type.Array(label)),
    onnx: Type.Object(
      {
        file: Type.String({
          minLength: 1,
          description: 'the model file: ONNX, or a file of LightGBM, XGBoost or CatBoost',
        }),
        sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
        probabilities: Type.Optional(
          Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 2, description: 'one output a class' })]),
        ),
        label: Type.Optional(Type.String()),
        value: Type.Optional(Type.String()),
      },
      closed,
    ),
    columns: Type.Array(ColumnSchema, { minItems: 1 }),
    numbers: Type.Optional(
      Type.Unsafe<'refuse' | 'accept'>(
        Type.Enum(['refuse', 'accept'], {
          description:
            'numbers for category and text columns in typed input (JSON, Parquet, Arrow, tables): accept takes every number; refuse (default) rejects them if a known value is not the plain text of a number, because 0230 read as a number is 230',
        }),
      ),
    ),
    inputs: Type.Array(InputSchema, { minItems: 1 }),
    output: Type.Optional(Type.Object({ kind: literals('probability', 'log_odds', 'value') }, closed)),
    scorecard: Type.Optional(
      Type.Object(
        {
          base_points: Type.Number(),
          base_odds: Type.Number({ exclusiveMinimum: 0 }),
          points_to_double_odds: Type.Number({ exclusiveMinimum: 0 }),
        },
        closed,
      ),
    ),
    decisions: Type.Optional(
      Type.Array(
        Type.Object({ name: Type.String(), min_probability: Type.Number({ minimum: 0, maximum: 1 }) }, closed),
      ),
    ),
    explain: Type.Optional(
      Type.Object(
        {
          method: Type.Optional(literals('tree_interventional', 'tree_path_dependent', 'linear', 'exact', 'sampling')),
          space: Type.Optional(literals('log_odds', 'probability', 'value')),
          pairs: Type.Optional(
            Type.Integer({ minimum: 1, maximum: 100_000, description: 'sampling: pairs of permutations per row' }),
          ),
          max_evaluations: Type.Optional(
            Type.Integer({
              minimum: 1,
              maximum: 100_000_000,
              description: 'black-box models: maximum evaluations for interpreting one row',
            }),
          ),
          background: Type.Optional(Type.String()),
          covers: Type.Optional(Type.String()),
        },
        closed,
      ),
    ),
    reasons: Type.Optional(
      Type.Record(
        Type.String(),
        Type.Union([Type.Literal('none'), Type.Object({ code: Type.String(), text: Type.String() }, closed)]),
      ),
    ),
    reasons_max: Type.Optional(Type.Integer({ minimum: 0, maximum: 10 })),
    self_test: Type.Optional(
      Type.Object(
        { input: Type.String(), expected: Type.String(), tolerance: Type.Optional(Type.Number({ minimum: 0 })) },
        closed,
      ),
    ),
    baseline: Type.Optional(
      Type.Object(
        {
          rows: Type.Optional(Type.Integer()),
          columns: Type.Record(Type.String(), ColumnBaselineSchema),
          score: Type.Optional(
            Type.Object({ edges: Type.Array(Type.Number()), counts: Type.Array(Type.Integer()) }, closed),
          ),
        },
        closed,
      ),
    ),
  },
  closed,
);

export type Manifest = Static<typeof ManifestSchema>;
export type ColumnSpec = Static<typeof ColumnSchema>;
export type InputSpec = Static<typeof InputSchema>;

const { scorecard, decisions, reasons, reasons_max } = ManifestSchema.properties;
/** The policy: the part of model.yaml that can change while the model stays the same. */
export const PolicySchema = Type.Object({ scorecard, decisions, reasons, reasons_max }, closed);
export type Policy = Static<typeof PolicySchema>;

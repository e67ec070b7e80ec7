// Example values of bodies and parameters, generated from the schemas of the OpenAPI document.

/** The parts of JSON Schema that the document uses. */
interface ExampleSchema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  example?: unknown;
  examples?: unknown[];
  format?: string;
  description?: string;
  minimum?: number;
  oneOf?: ExampleSchema[];
  anyOf?: ExampleSchema[];
  allOf?: ExampleSchema[];
  items?: ExampleSchema;
  properties?: Record<string, ExampleSchema>;
}

/** Schemas may refer to themselves. */
const MAX_DEPTH = 6;

/** An application of the bundled model; the columns of a model are at `GET /api/v1/models/{ref}`. */
const APPLICATION: Readonly<Record<string, string | number | boolean | null>> = {"amount": 17800, "source_type": "ONLINE", "remittance_type": "CARD", "term": 36, "income": 23625.68, "occupation_type": "EMPLOYEE", "pension_contributions": true, "criminal_record": false, "marital_status": "WIDOWED", "add_info_fraud": false, "add_info_inadequate": false, "add_info_poor_appearance": false, "credit_product_id": "0230", "verificator_id": "002", "partner_id": "P0001", "add_income_pension": true, "add_info_call_before_visit": false, "had_arrears": false, "had_credits_before": true, "has_active_credit": true, "monthly_payment": 901.99, "pt_income": 1725.5, "banned": false}; // biome-ignore format: a list

/** Texts of properties and parameters whose schema permits any text. */
const TEXTS: Readonly<Record<string, string>> = {
  ...{ model: 'credit-default:1', modelId: 'credit-default', ref: 'credit-default', name: 'credit-default' },
  ...{
    version: '1',
    alias: 'champion',
    code: 'bad_number',
    column: 'income',
    decision: 'approve',
    error: 'bad_number',
  },
  ...{ id: '8f14e45f-ceea-467f-9a36-dedd4bea2543', requestId: '8f14e45f-ceea-467f-9a36-dedd4bea2543' },
  ...{ title: 'The input is invalid.', detail: 'a cell is not a number', type: 'urn:sluice:error:bad_number' },
  ...{ reason: 'approved by the committee', who: 'ann', at: '2026-11-26T02:00:00Z', datatype: 'FP32' },
};

/** Bodies of formats that are not JSON. */
const BODIES: Readonly<Record<string, string>> = {
  'text/csv': `${Object.keys(APPLICATION).join()}\n${Object.values(APPLICATION).join()}\n`,
  'application/x-ndjson': `${JSON.stringify(APPLICATION)}\n`,
  'text/plain': 'sluice_ready 1\n',
};
const PREDICTED: Readonly<Record<string, string>> = {
  'text/csv': 'row,prediction,probability,decision,error_code\n1,true,0.9594,approve,\n',
  'application/x-ndjson': '{"row":1,"prediction":true,"probability":0.9594,"decision":"approve"}\n',
};

/** null: the format is binary, or has no example. `answer`: the body is a response. */
export function exampleBody(
  type: string,
  content: unknown,
  schemas: Readonly<Record<string, unknown>>,
  answer = false,
): string | null {
  // biome-ignore format: one line
  const schema = (content as { schema?: ExampleSchema }).schema ?? {};
  if (type.endsWith('json') && !type.includes('ndjson')) return JSON.stringify(exampleOf(schema, schemas, ''), null, 1);
  return (answer ? PREDICTED[type] : undefined) ?? BODIES[type] ?? null;
}

/** A value that matches the schema. */
export function exampleOf(
  schema: ExampleSchema,
  schemas: Readonly<Record<string, unknown>>,
  name: string,
  depth = 0,
): unknown {
  // biome-ignore format: one line
  if (depth > MAX_DEPTH) return null;
  const inner = (one: ExampleSchema, property = name): unknown => exampleOf(one, schemas, property, depth + 1);
  if (schema.$ref !== undefined) return inner((schemas[schema.$ref.split('/').at(-1)!] ?? {}) as ExampleSchema);
  const given = [schema.example, schema.examples?.[0], schema.const, schema.default, schema.enum?.[0]].find((x) => x !== undefined); // biome-ignore format: one line
  if (given !== undefined) return given;
  const [choice] = schema.oneOf ?? schema.anyOf ?? [];
  if (choice) return inner(choice);
  if (schema.allOf) return Object.assign({}, ...schema.allOf.map((one) => inner(one)));
  const type = Array.isArray(schema.type) ? schema.type.find((t) => t !== 'null') : schema.type;
  if (type === 'array') return schema.items ? [inner(schema.items)] : [];
  if (type === 'object' || schema.properties) {
    if (!schema.properties) return schema.description?.startsWith('an application') ? APPLICATION : {};
    return Object.fromEntries(Object.entries(schema.properties).map(([key, one]) => [key, inner(one, key)]));
  }
  if (type === 'integer') return Math.max(1, schema.minimum ?? 1);
  if (type === 'number') return Math.max(0.5, schema.minimum ?? 0.5);
  if (type === 'boolean') return true;
  if (schema.format === 'date-time') return TEXTS.at;
  return type === 'string' ? (TEXTS[name] ?? 'text') : null;
}

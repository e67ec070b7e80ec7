// Converts Protobuf values to ProtoJSON with the field names of the .proto file, including zeros that proto3 does not send.
import protobuf from 'protobufjs';
import protojson from 'protobufjs/ext/protojson.js';
import { messagePathOf } from '../schemas/framing.ts';
import type { RegisteredSchema } from '../schemas/schema-registry.ts';
import { type ReadValue, TypedText, writingOf } from '../schemas/value-codec.ts';

/** Files that every compiler includes: wrappers, timestamps and similar types. */
const WELL_KNOWN = /^google\/protobuf\/(any|duration|empty|field_mask|struct|timestamp|wrappers)\.proto$/;
const OPTIONS: protobuf.IParseOptions = { keepCase: true };
/** `json`: infinities and NaN become texts, because JSON.stringify would write null. */
const PLAIN: protobuf.IConversionOptions = {
  longs: String,
  enums: String,
  bytes: String,
  defaults: true,
  arrays: false,
  json: true,
};
const FLOATS = new Set(['float', 'double', '.google.protobuf.FloatValue', '.google.protobuf.DoubleValue']);
/** Types of fields that are written as texts: integers of 64 bits, bytes, and infinities in wrappers. */
const TEXTS: Readonly<Record<string, TypedText['kind']>> = {
  int64: 'number',
  uint64: 'number',
  sint64: 'number',
  fixed64: 'number',
  sfixed64: 'number',
  bytes: 'other',
  '.google.protobuf.Int64Value': 'number',
  '.google.protobuf.UInt64Value': 'number',
  '.google.protobuf.StringValue': 'text',
  '.google.protobuf.FloatValue': 'text',
  '.google.protobuf.DoubleValue': 'text',
};

/**
 * Parses a file and its imports into one root, each file once. Returns whether a stated default may have an escape:
 * protobufjs does not read all of them as UTF-8.
 * @throws Error if a file is invalid
 */
function load(root: protobuf.Root, { text, references }: RegisteredSchema, loaded: Set<string>): boolean {
  const first = text.indexOf('default');
  let hasEscapes = first >= 0 && text.includes('\\', first);
  for (const { name, schema } of references) {
    if (loaded.has(name)) continue;
    loaded.add(name);
    if (load(root, schema, loaded)) hasEscapes = true;
  }
  const { imports = [], weakImports = [] } = protobuf.parse(text, root, OPTIONS);
  for (const name of [...imports, ...weakImports]) {
    if (loaded.has(name)) continue;
    loaded.add(name);
    const common = WELL_KNOWN.test(name) ? protobuf.common.get(name) : null;
    if (!common) throw new Error(`${name} is not among the references`);
    root.addJSON(common.nested!);
  }
  return hasEscapes;
}

/** The messages of a namespace in the order of the file. */
const messagesOf = (space: protobuf.NamespaceBase): protobuf.Type[] =>
  space.nestedArray.filter((one): one is protobuf.Type => one instanceof protobuf.Type);

/**
 * Returns a function that finds the message at a path of a file. The file is also parsed alone: in the shared root,
 * other files may use the same package, which would change the order of messages.
 */
function finderOf({ text }: RegisteredSchema, root: protobuf.Root): (path: readonly number[]) => protobuf.Type {
  const alone = protobuf.parse(text, new protobuf.Root(), OPTIONS);
  const top = alone.package ? (alone.root.lookup(alone.package) as protobuf.Namespace) : alone.root;
  return (path) => {
    let space: protobuf.NamespaceBase = top;
    for (const index of path) {
      const next: protobuf.Type | undefined = messagesOf(space)[index];
      if (!next) throw new Error('there is no such message');
      space = next;
    }
    return root.lookupType(space.fullName);
  };
}

const isWellKnown = (field: protobuf.Field): boolean =>
  field.resolvedType instanceof protobuf.Type && field.resolvedType.fullName.startsWith('.google.protobuf.');

/** Whether the default that the schema states for a field may have been misread. */
function isUncertainDefault({ options, type }: protobuf.Field, hasEscapes: boolean): boolean {
  const value: unknown = options?.default;
  if (typeof value === 'number') return TEXTS[type] === 'number' && !Number.isSafeInteger(value);
  return typeof value === 'string' && (type === 'bytes' || (type === 'string' && hasEscapes));
}

/** Rounds the defaults that the schema states for numbers of 32 bits, as if they had been sent. */
function roundDefaults(space: protobuf.NamespaceBase): void {
  for (const one of space.nestedArray) {
    if (one instanceof protobuf.Type) {
      for (const field of one.fieldsArray)
        if (field.type === 'float' && field.options?.default !== undefined)
          field.typeDefault = Math.fround(field.typeDefault as number);
    }
    if (one instanceof protobuf.Namespace) roundDefaults(one);
  }
}

interface Message {
  type: protobuf.Type;
  absent: Readonly<Record<string, null>>;
  /** Fields whose presence is known: an absent one is missing, not zero. A default that the schema states applies. */
  optional: readonly string[];
  /** Fields that have to be in a message, because the default that the schema states may have been misread. */
  required: readonly string[];
  /** Fields whose type has a special mapping to JSON. */
  special: readonly protobuf.Field[];
  floats: readonly string[];
  /** Fields that are written as texts. */
  texts: readonly [name: string, kind: TypedText['kind']][];
}

/** What the text of a field is for the model. undefined: the field is not written as a text, or it is a text. */
function textKindOf(field: protobuf.Field): TypedText['kind'] | undefined {
  if (!isWellKnown(field)) return TEXTS[field.type];
  return TEXTS[field.resolvedType!.fullName] ?? 'other';
}

/** Creates a function that reads values of any message of the file. @throws Error if the files do not fit together */
export function readProtobuf(schema: RegisteredSchema): ReadValue {
  const root = new protobuf.Root();
  const hasEscapes = load(root, schema, new Set());
  root.resolveAll();
  roundDefaults(root);
  const find = finderOf(schema, root);
  const known = new Map<string, Message>();
  const messageAt = (path: readonly number[]) => {
    const key = path.join('.');
    let found = known.get(key);
    if (!found) {
      const type = find(path);
      const single = type.fieldsArray.filter((f) => !f.repeated && !f.map);
      for (const field of single) field.resolve();
      found = {
        type,
        absent: Object.fromEntries(single.map((f) => [f.name, null])),
        optional: single.filter((f) => f.hasPresence && f.options?.default === undefined).map((f) => f.name),
        required: single.filter((f) => isUncertainDefault(f, hasEscapes)).map((f) => f.name),
        special: single.filter(isWellKnown),
        floats: single.filter((f) => FLOATS.has(f.resolvedType?.fullName ?? f.type)).map((f) => f.name),
        texts: single.flatMap((f) => {
          const kind = textKindOf(f);
          return kind ? [[f.name, kind] as [string, TypedText['kind']]] : [];
        }),
      };
      known.set(key, found);
    }
    return found;
  };
  return (bytes) => {
    const place = messagePathOf(bytes, 0);
    if (!place) throw new Error('the message is unreachable');
    const { type, absent, optional, required, special, floats, texts } = messageAt(place.path);
    const message = type.decode(bytes.subarray(place.end));
    for (const name of required)
      if (!Object.hasOwn(message, name))
        throw new Error(`${name} is absent, and its default in the schema cannot be read exactly`);
    // Absent optional fields become null, which means a missing value rather than a missing column.
    const plain: Record<string, unknown> = { ...absent, ...type.toObject(message, PLAIN) };
    for (const field of special) {
      const value = (message as unknown as Record<string, unknown>)[field.name];
      if (value !== null && value !== undefined)
        plain[field.name] = protojson.toJson(field.resolvedType as protobuf.Type, value as protobuf.Message);
    }
    for (const name of optional) if (!Object.hasOwn(message, name)) plain[name] = null;
    // As in other typed formats, NaN is a missing value. An infinity stays a text, so that number columns reject it.
    for (const name of floats) if (plain[name] === 'NaN') plain[name] = null;
    for (const [name, kind] of texts) {
      const value = plain[name];
      if (typeof value === 'string') plain[name] = new TypedText(value, kind);
    }
    return writingOf(plain);
  };
}

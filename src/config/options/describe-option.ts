// Building blocks that describe options. Each entry point adds its own default to a shared option.
import type { TInteger, TNumber, TString, TUnsafe } from 'typebox';
import { Type } from '../schema.ts';

/** What an entry point adds to an option that several entry points share. */
export interface Door<T> {
  /** Default value. */
  default?: T;
  /** Description of a default that is not a fixed value, such as "one per core" or "by the name of the file". */
  otherwise?: string;
}

export const closed = { additionalProperties: false };
export const MIB = 1024 * 1024;

/** Description and default of an option for an entry point. */
export function at<T>(description: string, { default: value, otherwise }: Door<T> = {}) {
  return {
    description: otherwise === undefined ? description : `${description}; default: ${otherwise}`,
    ...(value === undefined ? {} : { default: value }),
  };
}

/** If an option has a default, the type of the option includes it, because the flag then always has a value. */
type Defaulted<D> = D extends { default: infer V } ? { default: V } : unknown;

export const text = <D extends Door<string>>(description: string, door?: D) =>
  Type.String({ minLength: 1, ...at(description, door) }) as TString & Defaulted<D>;
export const maybe = (description: string, door: Door<string> = {}) => Type.Optional(text(description, door));
export const toggle = (description: string, door: Door<boolean> = {}) => Type.Boolean(at(description, door));

type Bounds = readonly [minimum: number, maximum?: number];
const within = ([minimum, maximum]: Bounds) => ({ minimum, ...(maximum === undefined ? {} : { maximum }) });

export const amount = <D extends Door<number>>(description: string, bounds: Bounds, door?: D) =>
  Type.Number({ ...within(bounds), ...at(description, door) }) as TNumber & Defaulted<D>;

/** A whole number within bounds. */
export const whole = <D extends Door<number>>(description: string, bounds: Bounds, door?: D) =>
  Type.Integer({ ...within(bounds), ...at(description, door) }) as TInteger & Defaulted<D>;

/** One of several texts. */
export const choice = <V extends string, D extends Door<NoInfer<V>>>(
  description: string,
  values: readonly V[],
  door?: D,
) => Type.Unsafe<V>(Type.Enum([...values], at(description, door))) as TUnsafe<V> & Defaulted<D>;

/** The only possible value of the key `type` in this part of a schema. */
export const literal = <V extends string>(value: V) => Type.Unsafe<V>(Type.Enum([value]));

/** A mapping that may be omitted, because each of its keys has a default or is optional. */
export const section = <T extends Parameters<typeof Type.Object>[0]>(properties: T, description: string) =>
  Type.Object(properties, { ...closed, default: {}, description });

// Options of the log, which every entry point with a log has.

const LOG_FORMATS = ['auto', 'json', 'text'] as const;
const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;

export const LOGGING = {
  format: (door: Door<(typeof LOG_FORMATS)[number]> = {}) =>
    choice(
      'lines of the log: json for machines, text for people; auto: text on a terminal, else json',
      LOG_FORMATS,
      door,
    ),
  level: (door: Door<(typeof LOG_LEVELS)[number]> = {}) => choice('minimum log level', LOG_LEVELS, door),
};

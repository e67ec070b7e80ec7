// Building blocks of option descriptions. An entry point adds its own default to a shared option.
import { Type } from 'typebox';

// The parts options are described with. What a door adds to a shared option (its default) is given where the door is described.

/** What one door says about an option that several doors have. */
export interface Door<T> {
  /** Value when nothing is said. */
  default?: T;
  /** In words, where the default is no fixed value: "one per core", "by the name of the file". */
  otherwise?: string;
}

export const closed = { additionalProperties: false };
export const MIB = 1024 * 1024;

/** The description and the default of an option at a door. */
export function at<T>(description: string, { default: value, otherwise }: Door<T> = {}) {
  return {
    description: otherwise === undefined ? description : `${description}; default: ${otherwise}`,
    ...(value === undefined ? {} : { default: value }),
  };
}

export const text = (description: string, door: Door<string> = {}) =>
  Type.String({ minLength: 1, ...at(description, door) });
export const maybe = (description: string, door: Door<string> = {}) => Type.Optional(text(description, door));
export const toggle = (description: string, door: Door<boolean> = {}) => Type.Boolean(at(description, door));

/** A whole number within bounds. */
export const whole = (
  description: string,
  [minimum, maximum]: readonly [minimum: number, maximum?: number],
  door: Door<number> = {},
) => Type.Integer({ minimum, ...(maximum === undefined ? {} : { maximum }), ...at(description, door) });

/** One of some words. */
export const choice = <V extends string>(description: string, values: readonly V[], door: Door<NoInfer<V>> = {}) =>
  Type.Unsafe<V>(Type.Enum([...values], at(description, door)));

/** The one word a `type` key has in this part of a schema. */
export const literal = <V extends string>(value: V) => Type.Unsafe<V>(Type.Enum([value]));

/** A mapping whose keys all have defaults or may be missing: it may be left out itself. */
export const section = <T extends Parameters<typeof Type.Object>[0]>(properties: T, description: string) =>
  Type.Object(properties, { ...closed, default: {}, description });

// Options of the log, for every entry point that writes one.

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

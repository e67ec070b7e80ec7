// How a command is described. `npm run docs` turns these descriptions into plain tables, which is all the command line loads.
import type { TSchema } from 'typebox';
import { toggle } from '../options/describe-option.ts';
import { registryAddress } from '../options/scoring.ts';

// How a command of the command line is described; `npm run docs` makes plain tables of it, which is all a command line loads.

/** What a shell may offer for a value besides the choices of its schema. */
type Completion = 'file' | 'folder' | 'model';

export interface FlagSpec {
  schema: TSchema;
  /** One letter. */
  short?: string;
  /** Word for the value in the help; default: by the schema. */
  value?: string;
  required?: true;
  complete?: Completion;
}

export interface ArgumentSpec {
  name: string;
  description: string;
  optional?: true;
  /** One or more. */
  many?: true;
  choices?: readonly string[];
  complete?: Completion;
}

export interface CommandSpec {
  description: string;
  arguments?: readonly ArgumentSpec[];
  /** By name in snake_case: `batch_rows` is `--batch-rows`. */
  flags: Readonly<Record<string, FlagSpec>>;
}

/** Flags of a command by the words that call it. */
export type CommandSpecs = Readonly<Record<string, CommandSpec>>;

export const registryFlag: FlagSpec = { schema: registryAddress(), value: 'address', complete: 'folder' };

export const switchFlag = (description: string): FlagSpec => ({ schema: toggle(description) });

// Shells with a completion script.

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

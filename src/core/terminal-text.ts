// Texts of error details for a person at the terminal. They may quote names in the input, which no response or log contains.
import type { ErrorDetail } from './errors.ts';

/** Outside the detail, so that nothing that serialises an error can include them. */
const TEXTS = new WeakMap<ErrorDetail, string>();

/** Attaches a text for the terminal to a detail. */
export function withTerminalText(detail: ErrorDetail, text: string): ErrorDetail {
  TEXTS.set(detail, text);
  return detail;
}

/** The text for the terminal; default: the message. */
export const terminalText = (detail: ErrorDetail): string => TEXTS.get(detail) ?? detail.message;

// Quotes words of command lines that users copy into a shell.

/** Returns the word, quoted for POSIX shells if it has special characters. */
export const shellWord = (word: string): string =>
  /^[\w.,=:/@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

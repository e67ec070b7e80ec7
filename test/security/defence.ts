/** A defence of the threat model (docs/threat-model.md), and the change of the source that removes it. */
export interface Defence {
  /** What the defence does. Unique. */
  name: string;
  file: string;
  /** Occurs once in the file. */
  find: string;
  /** The code without the defence. */
  replace: string;
  /** The test file that must fail. */
  test: string;
}

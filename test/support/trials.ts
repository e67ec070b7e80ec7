// Damaged packages given to a registering process one after the other; where each lands is judged from outside the process.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { PlantedFault, TrialAnswer, TrialRequest } from './registering-process.ts';

/**
 * Where a damaged package lands.
 * `unchanged`: the damage left every byte as it was. `right`: accepted, and it reproduces the predictions. `refused`: with a code
 * and a reason. `contained`: ONNX Runtime crashed in the process that was started for it. The others must not happen.
 * `wrong`: accepted, and it does not reproduce the predictions. `hung`: ONNX Runtime or the registering process did not come to
 * an end. `crashed`: the registering process died. `unexplained`: an error that is no refusal. `ambiguous`: more than one answer.
 */
export type Landing =
  | 'unchanged'
  | 'right'
  | 'refused'
  | 'contained'
  | 'wrong'
  | 'hung'
  | 'crashed'
  | 'unexplained'
  | 'ambiguous';

export interface Landed {
  id: number;
  landing: Landing;
  /** Code of the refusal. */
  code: string | null;
  message: string;
}

export interface TrialCase {
  id: number;
  folder: string;
  unchanged: boolean;
  /** Scores the package beside the registering process. */
  reproduces: () => Promise<boolean>;
}

export interface TrialOptions {
  /** The registering process has this long to answer; far more than any package takes on a busy machine. Milliseconds. */
  limitMs: number;
  fault?: PlantedFault;
}

/** Id of the question whether the process is well; no package has it. */
const PING = -1;

/** Tries the cases in one registering process, or in the next one where it dies. */
export async function runTrials(cases: Iterable<TrialCase>, options: TrialOptions): Promise<Landed[]> {
  const landed: Landed[] = [];
  let child: Registering | undefined;
  for (const one of cases) {
    if (!child?.alive) child = new Registering(options.fault);
    landed.push(await land(one, child, options.limitMs));
  }
  await child?.end();
  return landed;
}

async function land(one: TrialCase, child: Registering, limitMs: number): Promise<Landed> {
  const { answers, end } = await child.try(one, limitMs);
  const [answer] = answers;
  const as = (landing: Landing, message = '', code: string | null = null): Landed => ({
    id: one.id,
    landing,
    code,
    message,
  });
  if (end !== null) return as(end, `the registering process ${end}`);
  if (answers.length !== 1 || !answer) return as('ambiguous', `${answers.length} answers`);
  if (answer.type === 'accepted') {
    if (one.unchanged) return as('unchanged');
    return (await one.reproduces()) ? as('right') : as('wrong', 'accepted, and the predictions differ');
  }
  if (answer.code === null || answer.message === '') return as('unexplained', answer.message);
  if (/did not finish with this model/.test(answer.message)) return as('hung', answer.message, answer.code);
  if (/crashed its process/.test(answer.message)) return as('contained', answer.message, answer.code);
  return as('refused', answer.message, answer.code);
}

type End = 'hung' | 'crashed';

/** A registering process as seen from outside: what it says, and how it ended. */
class Registering {
  readonly #child: ChildProcess;
  #answers: TrialAnswer[] = [];
  #timedOut = false;
  #end: End | null = null;
  #wake: () => void = () => {};

  constructor(fault: PlantedFault | undefined) {
    this.#child = fork(new URL('./registering-process.ts', import.meta.url), fault ? [fault] : [], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      execArgv: ['--disable-warning=ExperimentalWarning'],
    });
    this.#child.on('message', (answer: TrialAnswer) => {
      this.#answers.push(answer);
      this.#wake();
    });
    this.#child.on('exit', () => {
      this.#end = this.#timedOut ? 'hung' : 'crashed';
      this.#wake();
    });
  }

  get alive(): boolean {
    return this.#end === null;
  }

  /** All that the process said about a package, and how it ended if it did. */
  async try({ id, folder }: TrialCase, limitMs: number): Promise<{ answers: TrialAnswer[]; end: End | null }> {
    this.#answers = [];
    const timer = setTimeout(() => {
      this.#timedOut = true;
      this.#child.kill('SIGKILL');
    }, limitMs);
    await this.#ask(id, folder);
    // Whatever it does right after its answer belongs to this package: it is well if it refuses one that is not there.
    await this.#ask(PING, `${folder}/none`);
    clearTimeout(timer);
    return { answers: this.#answers.filter((a) => a.id !== PING), end: this.#end };
  }

  /** Lets the process end by itself. */
  async end(): Promise<void> {
    if (!this.alive) return;
    const exited = once(this.#child, 'exit');
    this.#child.disconnect();
    await exited;
  }

  async #ask(id: number, folder: string): Promise<void> {
    this.#child.send({ id, folder } satisfies TrialRequest, () => {});
    while (this.alive && !this.#answers.some((a) => a.id === id))
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }
}

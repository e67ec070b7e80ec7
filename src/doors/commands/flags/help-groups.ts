// Groups of flags in the help, the topics of `sluice help TOPIC`, and the examples of each command.
import type { Command } from 'commander';

/** Topic → heading, names of the flags without dashes, and the page with the details. */
export const HELP_TOPICS = {
  input: {
    heading: 'Input:',
    flags: 'input-format input-compression delimiter skip-lines columns rename ignore constants encoding decimal thousands trim null-values expect-rows expect-sha256 control-file trailer on-invalid plan shard', // biome-ignore format: a list
    page: 'docs/input.md',
  },
  output: {
    heading: 'Output:',
    flags: 'output rejects format compression passthrough allow-empty report run-records metrics-file push-gateway html json quiet parts', // biome-ignore format: a list
    page: 'docs/score.md',
  },
  model: {
    heading: 'Model:',
    flags: 'model registry evaluator interpretation top interpret-below interactions max-evaluations require-lock require-signature require-signer require-approval', // biome-ignore format: a list
    page: 'docs/models.md',
  },
  limits: {
    heading: 'Limits:',
    flags: 'max-rejects max-missing max-unseen max-out-of-range max-psi max-score-psi min-rows max-row-bytes max-columns deadline', // biome-ignore format: a list
    page: 'docs/gate.md',
  },
  proof: {
    heading: 'Proof:',
    flags: 'no-manifest sign-key resume restart checkpoint-every',
    page: 'docs/proof.md',
  },
  tuning: {
    heading: 'Tuning:',
    flags: 'workers batch-rows block-bytes read-bytes shards',
    page: 'docs/score.md',
  },
} as const;

const HEADINGS = new Map<string, string>(
  Object.values(HELP_TOPICS).flatMap(({ heading, flags }) => flags.split(' ').map((name) => [name, heading] as const)),
);

/** The help groups the flags of a command only if the command has at least this many. */
const LEAST_GROUPED = 12;

/** The heading of a flag in the help; undefined if the flag is listed under the general options. */
export const headingOf = (name: string, flags: number): string | undefined =>
  flags < LEAST_GROUPED ? undefined : HEADINGS.get(name);

/** Two example command lines per command, without the word `sluice`. */
export const EXAMPLES: Readonly<Record<string, readonly [string, string]>> = {
  score: [
    'score portfolio.csv --model credit-default -o scored.csv',
    'score bank.csv --model credit-default -o scored.parquet --delimiter semicolon --decimal comma --passthrough application_id',
  ],
  explain: [
    'explain portfolio.csv --row 17 --model credit-default',
    'explain portfolio.csv --row 17 --model credit-default --html why.html',
  ],
  inspect: ['inspect bank.csv --model credit-default', 'inspect export.txt.gz --model credit-default --json'],
  plan: [
    'plan portfolio.csv --shards 16 -o plan.json',
    'plan portfolio.csv --by 06:00 --model credit-default -o plan.json',
  ],
  merge: [
    "merge plan.json --parts 'out/part-{shard}.csv' -o scored.csv",
    "merge plan.json --parts 'out/part-{shard}.csv' -o scored.csv --max-rejects 0.01",
  ],
  shards: [
    'shards portfolio.csv --model credit-default --shards 16 --work /shared/night -o scored.csv',
    'shards portfolio.csv --model credit-default --shards 16 --work s3://bank/night -o s3://bank/scored.csv',
  ],
  verify: ['verify scored.csv', 'verify scored.csv --input portfolio.csv --key key.pub.pem'],
  replay: [
    'replay scored.csv --row 4711 --input portfolio.csv',
    'replay pipelines/nightly.yaml --row 4711 --package models/credit/3',
  ],
  run: ['run pipelines/nightly.yaml', 'run pipelines/loan-applications.yaml --metrics-port 9464'],
  lint: ['lint pipelines/nightly.yaml', 'lint pipelines/*.yaml'],
  test: ['test pipelines/nightly.yaml', 'test pipelines/*.yaml'],
  serve: ['serve --dev --cert-out dev.crt', 'serve --config sluice.yaml --set limits.rows=1000'],
  outcomes: [
    'outcomes scored.csv --labels labels.csv --key application_id --label-key id --outcome ok',
    'outcomes --pipeline pipelines/loan-applications.yaml --labels labels.csv --label-key id --outcome ok',
  ],
  generate: ['generate --rows 1000000 -o portfolio.csv', 'generate --rows 1000 --faults 3 --ids -o portfolio.csv'],
  init: ['init', 'init scoring'],
  top: ['top https://scores.bank.example --ca ca.crt', 'top http://localhost:9464 --once'],
  doctor: ['doctor', 'doctor --config sluice.yaml'],
  'model add': [
    'model add credit.onnx --training-data train.csv --expected predictions.csv',
    'model add credit.onnx --id credit --training-data train.csv --outcome ok --dry-run',
  ],
  'keys create': ['keys create nightly-batch --scopes predict,jobs', 'keys create grafana --scopes metrics --days 365'],
  'dlq replay': ['dlq replay pipelines/loan-applications.yaml --dry-run', 'dlq replay pipelines/loan-applications.yaml --code unseen_category'], // biome-ignore format: a list
};

/** Appends the examples to the help of a command. */
export function addExamples(command: Command, words: string): void {
  const examples = EXAMPLES[words];
  if (examples) command.addHelpText('after', `\nExamples:\n${examples.map((line) => `  sluice ${line}\n`).join('')}`);
}

/** The help text of one topic. `flags`: maps name and value placeholder to the description. */
export function topicHelp(topic: keyof typeof HELP_TOPICS, flags: ReadonlyMap<string, string>): string {
  const { heading, flags: names, page } = HELP_TOPICS[topic];
  const lines = names.split(' ').flatMap((name) => {
    const shown = [...flags].find(([flag]) => flag.split(' ')[0] === name);
    return shown ? [`  --${shown[0]}\n      ${shown[1]}\n`] : [];
  });
  return `${heading.slice(0, -1)} options of sluice score (details: ${page})\n\n${lines.join('')}`;
}

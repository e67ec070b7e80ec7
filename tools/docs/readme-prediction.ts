// The prediction that the README shows.
import { Session } from '../readme/session.ts';

/** Row 17 of the portfolio of the README, scored for real. */
export function readmePrediction(): string {
  const session = new Session();
  try {
    session.run('npx sluice generate --rows 17 --seed 7 --ids -o in.csv');
    const score = 'npx sluice score in.csv --model credit-default --interpretation --top 4';
    session.run(`${score} --passthrough application_id -o out.ndjson`);
    const prediction = JSON.parse(session.run('tail -n 1 out.ndjson'));
    const { interpretation, ...rest } = prediction;
    const { effects, reasons, ...how } = interpretation;
    const list = (all: object[]) => `[\n${all.map((one) => `      ${JSON.stringify(one)}`).join(',\n')}\n    ]`;
    const outer = Object.entries(rest).map(([name, value]) => `  ${JSON.stringify(name)}: ${JSON.stringify(value)}`);
    const inner = Object.entries(how).map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)}`);
    const parts = [...inner, `    "effects": ${list(effects)}`, `    "reasons": ${list(reasons)}`];
    return `\`\`\`json\n{\n${outer.join(',\n')},\n  "interpretation": {\n${parts.join(',\n')}\n  }\n}\n\`\`\``;
  } finally {
    session.close();
  }
}

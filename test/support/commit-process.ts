// A process that commits an output and what lies beside it once, as a run does; tests let it fail, kill it and hold it up.
import { once } from 'node:events';
import { CommitSet } from '../../src/io/sink/commit-set.ts';

const say = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

const [version, output, ...beside] = process.argv.slice(2) as [string, string, ...string[]];
const set = new CommitSet((_level, _event, says) => say(says));
try {
  const main = await set.open(output);
  const others = [];
  for (const file of beside) others.push(await set.open(file, { beside: true }));
  for (const sink of [main, ...others]) {
    await sink.write(Buffer.from(`${version} `));
    await sink.write(Buffer.from('whole\n'));
  }
  if (process.env.HOLD) {
    process.stdout.write(`held by ${process.pid}\n`);
    await once(process.stdin.resume(), 'end');
  }
  for (const sink of [...others, main]) await sink.commit();
  await set.publish();
} catch (error) {
  await set.abort();
  say(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

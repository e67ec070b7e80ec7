// `sluice help TOPIC`: prints the flags of `score` for a topic.
import { commandTable } from './flags/command-spec.ts';
import { HELP_TOPICS, topicHelp } from './flags/help-groups.ts';
import { SCORE_COMMANDS } from './flags/score-flags.ts';

export const TOPICS = Object.keys(HELP_TOPICS);

/** Returns null if the word is not a topic. */
export function helpOnTopic(word: string): string | null {
  if (!Object.hasOwn(HELP_TOPICS, word)) return null;
  const flags = commandTable(SCORE_COMMANDS.score).flags.map(
    ({ name, value, description }) => [value === undefined ? name : `${name} <${value}>`, description] as const,
  );
  return topicHelp(word as keyof typeof HELP_TOPICS, new Map(flags));
}

// The completion script for fish.
import { FIRST_WORDS, GROUPS, TABLES } from './completion-words.ts';
import type { CommandArgument, CommandTable, Flag } from './flags/command-spec.ts';

export function fishCompletion(): string {
  const groups = GROUPS.map(([group]) => group).join(' ');
  return `# Completion of sluice for fish: ~/.config/fish/completions/sluice.fish

# The command in front of the cursor: one word, or two of a group.
function __sluice_command
    set -l words (commandline -opc)
    switch "$words[2]"
        case ${groups}
            string trim -- "$words[2] $words[3]"
        case '*'
            echo "$words[2]"
    end
end

function __sluice_at
    test (__sluice_command) = "$argv"
end

# References of the models of a registry: asked for once; not over the network.
function __sluice_models
    set -l words (commandline -opc)
    set -l registry $SLUICE_REGISTRY
    for i in (seq (count $words))
        switch $words[$i]
            case --registry
                set registry $words[(math $i + 1)]
            case '--registry=*'
                set registry (string replace -- --registry= '' $words[$i])
        end
    end
    string match -q '*://*' -- "$registry"; and return
    if test "$__sluice_models_of" != "$PWD $registry"
        set -g __sluice_models_of "$PWD $registry"
        set -g __sluice_refs
        set -l given
        test -n "$registry"; and set given --registry=$registry
        for line in ($words[1] model list $given 2>/dev/null)
            set -l fields (string split \\t -- $line)
            set -a __sluice_refs $fields[1]
            for v in (string split -n , -- $fields[2])
                set -a __sluice_refs $fields[1]:$v
            end
            for a in (string split -n , -- $fields[3])
                set -a __sluice_refs $fields[1]@(string replace -r '=.*' '' -- $a)
            end
        end
    end
    printf '%s\\n' $__sluice_refs
end

complete -c sluice -e
complete -c sluice -f
${[
  ...wordLines('""', FIRST_WORDS),
  ...GROUPS.flatMap(([group, words]) => wordLines(group, words)),
  ...TABLES.flatMap(commandLines),
].join('\n')}
`;
}

const quotedFish = (text: string): string => `'${text.replaceAll(/['\\]/g, '\\$&')}'`;

const wordLines = (at: string, words: readonly (readonly [string, string])[]): string[] =>
  words.map(
    ([word, description]) =>
      `complete -c sluice -n ${quotedFish(`__sluice_at ${at}`)} -a ${word} -d ${quotedFish(description)}`,
  );

function commandLines([words, table]: readonly [string, CommandTable]): string[] {
  const here = `complete -c sluice -n ${quotedFish(`__sluice_at ${words}`)}`;
  const [first] = table.arguments;
  const argument = first ? actionOf(first) : '';
  return [
    ...table.flags.map((flag) => {
      const short = flag.short === undefined ? '' : ` -s ${flag.short}`;
      const value = flag.value === undefined ? '' : ` -r ${actionOf(flag)}`;
      return `${here} -l ${flag.name}${short}${value.trimEnd()} -d ${quotedFish(flag.description)}`;
    }),
    ...(argument === '' ? [] : [`${here} ${argument}`]),
  ];
}

function actionOf({ choices, complete }: Flag | CommandArgument): string {
  if (choices) return `-f -a ${quotedFish(choices.join(' '))}`;
  if (complete === 'file') return '-F';
  if (complete === 'folder') return "-f -a '(__fish_complete_directories)'";
  return complete === 'model' ? "-f -a '(__sluice_models)'" : '';
}

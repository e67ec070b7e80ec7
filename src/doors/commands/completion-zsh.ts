// The completion script for zsh.
import { FIRST_WORDS, GROUPS, quoted, TABLES } from './completion-words.ts';
import type { CommandArgument, CommandTable, Flag } from './flags/command-spec.ts';

export function zshCompletion(): string {
  const described = (words: readonly (readonly [string, string])[]) =>
    words.map(([word, description]) => quoted(`${word}:${description.replaceAll(':', '\\:')}`)).join(' ');
  return `#compdef sluice
# Completion of sluice for zsh: a file _sluice in a folder of $fpath, or source <(sluice completion zsh) behind compinit.

# References of the models of a registry: asked for once; not over the network.
_sluice_models() {
  local registry=\${opt_args[--registry]:-\${SLUICE_REGISTRY-}} line version alias
  local -a fields
  [[ $registry == *://* ]] && return 1
  if [[ \${_sluice_models_of-} != "$PWD $registry" ]]; then
    typeset -g _sluice_models_of="$PWD $registry"
    typeset -ga _sluice_refs=()
    for line in \${(f)"$(sluice model list \${registry:+--registry=$registry} 2>/dev/null)"}; do
      fields=("\${(@ps:\\t:)line}")
      _sluice_refs+=($fields[1])
      for version in \${(s:,:)fields[2]-}; do _sluice_refs+=("$fields[1]:$version"); done
      for alias in \${(s:,:)fields[3]-}; do _sluice_refs+=("$fields[1]@\${alias%%=*}"); done
    done
  fi
  compadd -a _sluice_refs
}

_sluice() {
  local -a commands
  local -A opt_args
  if ((CURRENT == 2)); then
    commands=(${described(FIRST_WORDS)})
    _describe command commands
    return
  fi
  local command=$words[2]
  case $command in
${GROUPS.map(
  ([group, words]) => `    ${group})
      if ((CURRENT == 3)); then
        commands=(${described(words)})
        _describe command commands
        return
      fi
      command+=" $words[3]"
      shift words
      ((CURRENT--))
      ;;`,
).join('\n')}
  esac
  shift words
  ((CURRENT--))
  case $command in
${TABLES.map(commandCase).join('\n')}
  esac
}

if [[ \${funcstack[1]-} == _sluice ]]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi
`;
}

const plain = (text: string): string => text.replaceAll(/[[\]:\\]/g, '\\$&');

function commandCase([words, table]: readonly [string, CommandTable]): string {
  const specs = [...table.flags.map(flagSpec), ...table.arguments.map(argumentSpec), quoted('--help[show the help]')];
  return `    ${quoted(words)})
      _arguments -S \\
${specs.map((s) => `        ${s}`).join(' \\\n')}
      ;;`;
}

function flagSpec(flag: Flag): string {
  const tail = `[${plain(flag.description)}]${flag.value === undefined ? '' : `:${plain(flag.value)}:${actionOf(flag)}`}`;
  const equals = flag.value === undefined ? '' : '=';
  const long = `--${flag.name}`;
  if (flag.short === undefined) return quoted(`${flag.many ? '*' : ''}${long}${equals}${tail}`);
  const both = `(-${flag.short} ${long})`;
  return `${quoted(`${both}-${flag.short}${tail}`)} ${quoted(`${both}${long}${equals}${tail}`)}`;
}

function argumentSpec(argument: CommandArgument, i: number): string {
  const name = argument.name.replaceAll(/[^\w]/g, '');
  const place = argument.name.includes('...') ? '*' : `${i + 1}`;
  return quoted(`${place}${argument.name.startsWith('[') ? '::' : ':'}${name}:${actionOf(argument)}`);
}

function actionOf({ choices, complete }: Flag | CommandArgument): string {
  if (choices) return `(${choices.join(' ')})`;
  if (complete === 'file') return '_files';
  if (complete === 'folder') return '_files -/';
  return complete === 'model' ? '_sluice_models' : ' ';
}

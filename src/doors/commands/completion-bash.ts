// The completion script for bash 3.2 (the version in macOS) and later.
import { FIRST_WORDS, GROUPS, quoted, TABLES } from './completion-words.ts';
import type { CommandArgument, CommandTable, Flag } from './flags/command-spec.ts';

export function bashCompletion(): string {
  const names = (words: readonly (readonly [string, string])[]) => quoted(words.map(([word]) => word).join(' '));
  return `# Completion of sluice for bash. In ~/.bashrc: source <(sluice completion bash)

# The words up to the cursor. bash breaks words at : @ and =, which references and --flag=value hold.
_sluice_join_words() {
  local i w glue=
  words=() n=0
  for ((i = 0; i <= COMP_CWORD; i++)); do
    w=\${COMP_WORDS[i]}
    if ((n > 0)) && [[ $glue || $w == [:@=]* ]]; then
      words[n - 1]+=$w
    else
      words[n]=$w
      n=$((n + 1))
    fi
    if [[ $w == *[:@=] ]]; then glue=1; else glue=; fi
  done
}

_sluice_words() {
  local IFS=$' \\t\\n' line
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -W "$1" -- "$cur")
}

_sluice_paths() {
  local line
  compopt -o filenames 2>/dev/null
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$1" -- "$cur")
}

# References of the models of a registry: asked for once; not over the network.
_sluice_models() {
  local IFS=$' \\t\\n' i registry=\${SLUICE_REGISTRY-} id versions aliases x line
  for ((i = 1; i < n - 1; i++)); do
    case \${words[i]} in
      --registry) registry=\${words[i + 1]} ;;
      --registry=*) registry=\${words[i]#*=} ;;
    esac
  done
  [[ $registry == *://* ]] && return
  if [[ \${_sluice_models_of-} != "$PWD $registry" ]]; then
    _sluice_models_of="$PWD $registry" _sluice_refs=
    while IFS=$'\\t' read -r id versions aliases; do
      _sluice_refs+="$id "
      for x in \${versions//,/ }; do _sluice_refs+="$id:$x "; done
      for x in \${aliases//,/ }; do _sluice_refs+="$id@\${x%%=*} "; done
    done < <("\${words[0]}" model list \${registry:+"--registry=$registry"} 2>/dev/null)
  fi
  # Only what stands behind the last : or @ is replaced.
  local front=\${cur%"\${cur##*[:@]}"}
  while IFS= read -r line; do COMPREPLY+=("\${line#"$front"}"); done < <(compgen -W "$_sluice_refs" -- "$cur")
}

_sluice() {
  local cur prev command n at=1
  local -a words
  _sluice_join_words
  cur=\${words[n - 1]} prev=\${words[n - 2]}
  COMPREPLY=()
  if ((n <= 2)); then
    _sluice_words ${names([...FIRST_WORDS, ['--help', ''], ['--version', '']])}
    return
  fi
  command=\${words[1]}
  case $command in
${GROUPS.map(
  ([group, words]) => `    ${group})
      if ((n == 3)); then
        _sluice_words ${names(words)}
        return
      fi
      command+=" \${words[2]}" at=2
      ;;`,
).join('\n')}
  esac
  if [[ $cur == --*=* ]]; then
    prev=\${cur%%=*} cur=\${cur#*=}
  elif ((n - 2 <= at)); then
    prev=
  fi
  case "$command $prev" in
${TABLES.flatMap(([words, { flags }]) => flags.flatMap((flag) => valueCase(words, flag))).join('\n')}
  esac
  case $command in
${TABLES.map(commandCase).join('\n')}
  esac
}

complete -F _sluice sluice
`;
}

/** Completions for the value of a flag. */
function valueCase(words: string, flag: Flag): string[] {
  if (flag.value === undefined) return [];
  const spellings = [`--${flag.name}`, ...(flag.short === undefined ? [] : [`-${flag.short}`])];
  const patterns = spellings.map((s) => `'${words} ${s}'`).join(' | ');
  return [`    ${patterns}) ${offer(flag)}return ;;`];
}

function offer({ choices, complete }: Flag | CommandArgument): string {
  if (choices) return `_sluice_words ${quoted(choices.join(' '))}; `;
  if (complete === 'file') return '_sluice_paths -f; ';
  if (complete === 'folder') return '_sluice_paths -d; ';
  return complete === 'model' ? '_sluice_models; ' : '';
}

function commandCase([words, table]: readonly [string, CommandTable]): string {
  const flags = [...table.flags.map((f) => `--${f.name}`), '--help'].join(' ');
  const [first] = table.arguments;
  const argument = first ? offer(first).replace(/; $/, '') : '';
  return `    '${words}')
      if [[ $cur == -* ]]; then
        _sluice_words '${flags}'
      else
        ${argument === '' ? `_sluice_words '${flags}'` : argument}
      fi
      ;;`;
}

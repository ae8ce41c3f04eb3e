# shellcheck shell=bash
# Completion for trainyard. Verbs, topics of teach, verbs of topo and flags come from its help. If no file fits, it offers
# the shipped scenarios.
_trainyard() {
  local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} choices='' command
  if ((COMP_CWORD == 1)); then
    choices="$("${COMP_WORDS[0]}" help 2>/dev/null | sed -n '5,/^$/s/^  \([a-z]*\) .*/\1/p') --help --version"
  elif [[ $verb == @(teach|topo) && $word != -* && $COMP_CWORD -eq 2 ]]; then
    choices=$("${COMP_WORDS[0]}" "$verb" --help 2>/dev/null | sed -n '5,/^$/s/^  \([a-z-]*\) .*/\1/p')
  elif [[ $word == -* ]]; then
    command=("$verb")
    if [[ $verb == @(teach|topo) && $COMP_CWORD -gt 2 ]]; then command+=("${COMP_WORDS[2]}"); fi
    choices=$("${COMP_WORDS[0]}" "${command[@]}" --help 2>/dev/null | grep -o -e '^  -[-a-z,]*' | tr ',' '\n')
  elif [[ $verb == help ]]; then
    choices="$("${COMP_WORDS[0]}" help 2>/dev/null | sed -n '5,/^$/s/^  \([a-z]*\) .*/\1/p') json limits scenario"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
  ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$word")
  if ((${#COMPREPLY[@]} == 0)); then
    choices=$("${COMP_WORDS[0]}" list scenarios 2>/dev/null | sed -n 's|^  scenarios/\(.*\)\.yaml .*|\1|p')
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
  fi
}
complete -o filenames -F _trainyard trainyard

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Completes command lines in the shells themselves, as their users' TAB does; those that are not
# installed are left out, bash never is.
#   completion_test.sh PATH_TO_CPPRUN PATH_TO_CPPRUND PATH_TO_CPPRUNCTL
cpprun=$1 cpprund=$2 cpprunctl=$3
failed=0
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# expect SHELL LINE WANTED GOT: what completes LINE, sorted and in one line.
expect() {
  [ "$3" = "$4" ] && return
  printf '%s completes "%s" to "%s" instead of "%s"\n' "$1" "$2" "$4" "$3"
  failed=1
}

# bash hands the words of the line to the function, "=" as one of its own.
in_bash() {
  local line=$1
  bash --norc -c '
    source <("$1" --print-completion bash)
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _cpprun
    printf "%s\n" "${COMPREPLY[@]}"' - "$cpprun" "${@:2}" | LC_ALL=C sort | xargs
}
bash_completes() {
  expect bash "${*:2}" "$1" "$(in_bash "${*:2}" "${@:2}")"
}
bash_completes "--log-dir --log-keep --log-level --log-line-prefix-template --log-max-bytes \
--log-time --logs-specs" cpprun --log
bash_completes "--dry-run" cpprun --nnodes 2 --dr
bash_completes "--json" cpprun --dry-run --js
bash_completes "inherit pass" cpprun --stderr =
bash_completes "inherit" cpprun --stderr = i
bash_completes "inherit" cpprun --stderr i
bash_completes "c10d" cpprun --nnodes = 2 --rdzv_backend c
bash_completes "0 1 2 3" cpprun --standalone -r ""
long="--standalone --standby --start-method --status-access --stderr --store --stragglers"
bash_completes "$long" \
  cpprun -m --nnodes 2 --st
bash_completes "" cpprun --nnodes 2 train.py --st
bash_completes "" cpprun ""
bash_completes "SIGTERM" cpprun --signals-to-handle = SIGT
# control_completes WANTED WORD…: what bash makes of the words for cpprunctl.
control_completes() {
  expect bash "${*:2}" "$1" "$(bash --norc -c '
    source <("$1" --print-completion bash)
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _cpprunctl
    printf "%s\n" "${COMPREPLY[@]}"' - "$cpprunctl" "${@:2}" | LC_ALL=C sort | xargs)"
}
control_completes "doctor" cpprunctl do
control_completes "--hostfile --hosts" cpprunctl doctor --host
printf '10.0.0.1 node-alpha\n10.0.0.2 node-beta other\n' >"$folder/hosts"
export HOSTFILE=$folder/hosts
bash_completes "node-alpha node-beta" cpprun --rdzv-endpoint = node
bash_completes "node-beta" cpprun --master-addr node-b

# daemon_completes WANTED WORD…: what bash makes of the words for cpprund.
daemon_completes() {
  expect bash "${*:2}" "$1" "$(bash --norc -c '
    source <("$1" --print-completion bash)
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _cpprund
    printf "%s\n" "${COMPREPLY[@]}"' - "$cpprund" "${@:2}" | LC_ALL=C sort | xargs)"
}
daemon_completes "--max-jobs --max-jobs-per-address" cpprund --no-secret --max-j
daemon_completes "network none" cpprund --status-access n
daemon_completes "network none" cpprund --status-access = n
daemon_completes "host network none user" cpprund --status-access =
daemon_completes "node-alpha node-beta" cpprund --host node
daemon_completes "$folder/hosts" cpprund --secret-file "$folder/h"
mkdir "$folder/logs one" "$folder/logs two"
expect bash "--log-dir $folder/l" "$folder/logs one|$folder/logs two|" "$(bash --norc -c '
  source <("$1" --print-completion bash)
  COMP_WORDS=(cpprun --log-dir "$2/l") COMP_CWORD=2
  _cpprun; printf "%s\n" "${COMPREPLY[@]}"' - "$cpprun" "$folder" | sort | tr "\n" "|")"

if command -v fish >/dev/null; then
  fish_completes() {
    expect fish "$2" "$1" "$(HOME=$folder fish --no-config -c "
      $cpprun --print-completion fish | source
      complete -C '$2'" | cut -f1 | LC_ALL=C sort | xargs)"
  }
  fish_completes "--log-dir --log-keep --log-level --log-line-prefix-template --log-max-bytes \
--log-time --logs-specs" "cpprun --log"
  fish_completes "inherit pass" "cpprun --stderr "
  fish_completes "--stderr=inherit" "cpprun --stderr=i"
fi

if command -v fish >/dev/null; then
  expect fish "cpprund --store-dialect 2" "2.1 2.2+" "$(HOME=$folder fish --no-config -c "
    $cpprund --print-completion fish | source
    complete -C 'cpprund --store-dialect 2'" | cut -f1 | LC_ALL=C sort | xargs)"
  fish_completes "SIGHUP" "cpprun --signals-to-handle SIGH"
fi

if command -v zsh >/dev/null; then
  "$cpprund" --print-completion zsh >"$folder/_cpprund"
  zsh -n "$folder/_cpprund" || failed=1
  "$cpprun" --print-completion zsh >"$folder/_cpprun"
  zsh -n "$folder/_cpprun" || failed=1
  expect zsh "cpprun" "_cpprun _cpprun" "$(zsh -f -c 'autoload -Uz compinit && compinit -u -D
    source $1/_cpprun; print -n $_comps[cpprun]
    fpath=($1 $fpath); unset "_comps[cpprun]"
    compinit -u -D; print " $_comps[cpprun]"' - "$folder")"
  # A terminal of zsh's own; what never shows up on it ends with the limit of time.
  TERM=dumb timeout 60 zsh -f -c 'zmodload zsh/zpty && zpty terminal zsh -f -i || exit
    zpty -w terminal "autoload -Uz compinit && compinit -u -D; source $1/_cpprun; print rea\dy"
    zpty -r terminal seen "*ready*"
    zpty -n -w terminal "cpprun --nnodes=2 --log-line"$'\''\t'\''
    zpty -r terminal seen "*--log-line-prefix-template=*"
    zpty -n -w terminal "x --stderr=i"$'\''\t'\''
    zpty -r terminal seen "*--stderr=inherit*"
    zpty -n -w terminal $'\''\025'\''"source $1/_cpprund; print rea\dy"$'\''\n'\''
    zpty -r terminal seen "*ready*"
    zpty -n -w terminal "cpprund --log-level=d"$'\''\t'\''
    zpty -r terminal seen "*--log-level=debug*"' - "$folder" ||
    expect zsh "cpprun --log-line, cpprun --stderr=i, cpprund --log-level=d" \
      "the rest of them" "something else"
fi

if command -v tcsh >/dev/null; then
  "$cpprun" --print-completion tcsh >"$folder/complete.tcsh"
  expect tcsh "its own list" "1" "$(tcsh -f -c "source $folder/complete.tcsh; complete" |
    grep -c "log-line-prefix-template=")"
fi

# Names are data. Fake programs log what they are started with; a name that some shell reads as a
# command leaves the file "made" behind.
mkdir "$folder/bin" "$folder/cwd"
cat >"$folder/bin/cpprunctl" <<'EOF'
#!/bin/sh
if [ "$1" = ls ]; then cat "$NAMES"; else printf '%s\n' "$@" >>"$LOG"; fi
EOF
cat >"$folder/bin/cpprun" <<'EOF'
#!/bin/sh
printf '%s\n' "$@" >>"$LOG"
EOF
chmod +x "$folder/bin/cpprunctl" "$folder/bin/cpprun"
export NAMES=$folder/names LOG=$folder/log
"$cpprunctl" --print-completion bash >"$folder/ctl.bash"
"$cpprunctl" --print-completion zsh >"$folder/_cpprunctl"
"$cpprunctl" --print-completion fish >"$folder/ctl.fish"
"$cpprun" --print-completion bash >"$folder/run.bash"
"$cpprun" --print-completion tcsh >"$folder/complete.tcsh"
names=('$(touch made)' '`touch made`' 'a b' "it's" 'say "x"' ';touch made' '*' '$HOME' '~root'
  '{a,b}' '#x' 'a\b' 'x&touch made&' "'\"\$(touch made)" '-dash' '<made')
# typed SHELL SETUP LINE: what a program is started with when LINE, TAB and enter are typed.
typed() {
  rm -f "$LOG" "$folder/cwd/made"
  (cd "$folder/cwd" && printf '%s\n%s\t\n\025exit\n' "$2" "$3" |
    PATH=$folder/bin:$PATH TERM=xterm HOME=$folder timeout 60 script -qec "$1" /dev/null \
      >"$folder/typescript" 2>&1)
  cat "$LOG" 2>/dev/null
  [ ! -e "$folder/cwd/made" ] || echo "AND IT RAN"
}
if command -v script >/dev/null; then
  for name in "${names[@]}"; do
    printf '%s\n' "$name" >"$NAMES"
    expect bash "cpprunctl stop TAB" "stop $name" \
      "$(typed "bash --norc --noprofile -i" "set +H; source $folder/ctl.bash" "cpprunctl stop " |
        paste -sd ' ')"
    if command -v zsh >/dev/null; then
      expect zsh "cpprunctl stop TAB" "stop $name" "$(typed "zsh -f -i" \
        "autoload -Uz compinit && compinit -u -D; source $folder/_cpprunctl" "cpprunctl stop " |
        paste -sd ' ')"
    fi
  done
  for name in "${names[@]}" $'new\nline'; do
    [ "$name" != "~root" ] || continue  # bash takes it for the folder and adds a slash
    rm -rf "$folder/cwd" && mkdir "$folder/cwd" && touch "$folder/cwd/$name"
    for line in "cpprunctl keygen " "cpprun --config " "cpprun "; do
      expect bash "$line TAB" "$name" "$(typed "bash --norc --noprofile -i" \
        "set +H; source $folder/ctl.bash; source $folder/run.bash" "$line" |
        grep -vx -e keygen -e --config)"
    done
    if command -v tcsh >/dev/null; then
      expect tcsh "cpprun TAB" "$name" \
        "$(typed "tcsh -f" "set histchars=''; source $folder/complete.tcsh" "cpprun ")"
    fi
  done
  rm -rf "$folder/cwd" && mkdir "$folder/cwd"
fi
if command -v fish >/dev/null; then
  for name in "${names[@]}"; do
    printf '%s\n' "$name" >"$NAMES"
    expect fish "cpprunctl stop TAB" "$name" "$(cd "$folder/cwd" && PATH=$folder/bin:$PATH \
      HOME=$folder fish --no-config -c "source $folder/ctl.fish; complete -C 'cpprunctl stop '" |
      cut -f1; [ ! -e "$folder/cwd/made" ] || echo "AND IT RAN")"
  done
fi

[ "$("$cpprun" --print-completion ksh x 2>&1 | head -1)" = \
  "cpprun: error: --print-completion=ksh is not one of bash, zsh, fish, tcsh" ] || failed=1
if command -v man >/dev/null && command -v groff >/dev/null; then
  for program in "$cpprun" "$cpprund" "$cpprunctl"; do
    "$program" --print-man >"$folder/page.1"
    warnings=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$folder/page.1" 2>&1 >/dev/null)
    expect man "warnings: ${program##*/}" "" "$warnings"
    flags=$("$program" --help | grep -oE '^  (-[a-zA-Z],? ?)?--[a-z-]+' | grep -oE -- '--[a-z-]+')
    [ "$(wc -w <<<"$flags")" -gt 3 ] || failed=1
    shown=$(LC_ALL=C.UTF-8 MANWIDTH=80 man -l "$folder/page.1" | col -b)
    for flag in $flags; do
      grep -q -- "$flag" <<<"$shown" || expect man "$program" "$flag" "a page without it"
    done
  done
fi
exit $failed

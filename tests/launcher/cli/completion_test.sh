#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Completes command lines in the shells themselves, as their users' TAB does; a shell that is not
# installed is skipped, bash never is.
#   completion_test.sh PATH_TO_CPPRUN PATH_TO_CPPRUND PATH_TO_CPPRUNCTL
cpprun=$1 cpprund=$2 cpprunctl=$3
failed=0
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT

# expect SHELL LINE WANTED GOT: what completes LINE, sorted and in one line.
expect() {
  [ "$3" = "$4" ] && return
  printf '%s completes "%s" to "%s" instead of "%s"\n' "$1" "$2" "$4" "$3"
  failed=1
}

# bash passes the words of the line to the function, with "=" as a word of its own.
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
bash_completes "--json" cpprun --rdzv-endpoint h : 29400 --dry-run = true --js
bash_completes "inherit pass" cpprun --stderr =
bash_completes "--dry-run" cpprun --warm --dr
bash_completes "--dry-run" cpprun --warm = torch --dr
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
# control_completes WANTED WORD…: how bash completes the words for cpprunctl.
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
control_completes "simulate" cpprunctl --address = h policy s
control_completes "doctor" cpprunctl --address h : 29400 do
printf '10.0.0.1 node-alpha\n10.0.0.2 node-beta other\n' >"$directory/hosts"
export HOSTFILE=$directory/hosts
bash_completes "node-alpha node-beta" cpprun --rdzv-endpoint = node
bash_completes "node-beta" cpprun --master-addr node-b

# daemon_completes WANTED WORD…: how bash completes the words for cpprund.
daemon_completes() {
  expect bash "${*:2}" "$1" "$(bash --norc -c '
    source <("$1" --print-completion bash)
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _cpprund
    printf "%s\n" "${COMPREPLY[@]}"' - "$cpprund" "${@:2}" | LC_ALL=C sort | xargs)"
}
daemon_completes "--max-jobs --max-jobs-per-address" cpprund --no-secret --max-j
daemon_completes "--cluster" cpprund --etcd http : //a : 2379 --cl
daemon_completes "network none" cpprund --status-access n
daemon_completes "network none" cpprund --status-access = n
daemon_completes "host network none user" cpprund --status-access =
daemon_completes "node-alpha node-beta" cpprund --host node
daemon_completes "" cpprund --secret-file "$directory/h"  # left to bash itself; see below
mkdir "$directory/logs one" "$directory/logs two"
expect bash "--log-dir $directory/l" "$directory/logs one|$directory/logs two|" "$(bash --norc -c '
  source <("$1" --print-completion bash)
  COMP_WORDS=(cpprun --log-dir "$2/l") COMP_CWORD=2
  _cpprun; printf "%s\n" "${COMPREPLY[@]}"' - "$cpprun" "$directory" | sort | tr "\n" "|")"

if command -v fish >/dev/null; then
  fish_completes() {
    expect fish "$2" "$1" "$(HOME=$directory fish --no-config -c "
      $cpprun --print-completion fish | source
      complete -C '$2'" | cut -f1 | LC_ALL=C sort | xargs)"
  }
  fish_completes "--log-dir --log-keep --log-level --log-line-prefix-template --log-max-bytes \
--log-time --logs-specs" "cpprun --log"
  fish_completes "inherit pass" "cpprun --stderr "
  fish_completes "--stderr=inherit" "cpprun --stderr=i"
fi

if command -v fish >/dev/null; then
  expect fish "cpprund --store-dialect 2" "2.1 2.2+" "$(HOME=$directory fish --no-config -c "
    $cpprund --print-completion fish | source
    complete -C 'cpprund --store-dialect 2'" | cut -f1 | LC_ALL=C sort | xargs)"
  fish_completes "SIGHUP" "cpprun --signals-to-handle SIGH"
fi

if command -v zsh >/dev/null; then
  "$cpprund" --print-completion zsh >"$directory/_cpprund"
  zsh -n "$directory/_cpprund" || failed=1
  "$cpprun" --print-completion zsh >"$directory/_cpprun"
  zsh -n "$directory/_cpprun" || failed=1
  expect zsh "cpprun" "_cpprun _cpprun" "$(zsh -f -c 'autoload -Uz compinit && compinit -u -D
    source $1/_cpprun; print -n $_comps[cpprun]
    fpath=($1 $fpath); unset "_comps[cpprun]"
    compinit -u -D; print " $_comps[cpprun]"' - "$directory")"
  # A terminal of zsh's own; if the text never appears, the time limit ends it.
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
    zpty -r terminal seen "*--log-level=debug*"' - "$directory" ||
    expect zsh "cpprun --log-line, cpprun --stderr=i, cpprund --log-level=d" \
      "the rest of them" "something else"
fi

if command -v tcsh >/dev/null; then
  "$cpprun" --print-completion tcsh >"$directory/complete.tcsh"
  expect tcsh "its own list" "1" "$(tcsh -f -c "source $directory/complete.tcsh; complete" |
    grep -c "log-line-prefix-template=")"
fi

# Names are data. Fake programs log their arguments; a name that some shell runs as a command
# leaves the file "made" behind.
mkdir "$directory/bin" "$directory/cwd"
cat >"$directory/bin/cpprunctl" <<'EOF'
#!/bin/sh
if [ "$1" = ls ]; then cat "$NAMES"; else printf '%s\n' "$@" >>"$LOG"; fi
EOF
cat >"$directory/bin/cpprun" <<'EOF'
#!/bin/sh
printf '%s\n' "$@" >>"$LOG"
EOF
cp "$directory/bin/cpprun" "$directory/bin/cpprund"
chmod +x "$directory/bin/"*
export NAMES=$directory/names LOG=$directory/log
"$cpprunctl" --print-completion bash >"$directory/ctl.bash"
"$cpprunctl" --print-completion zsh >"$directory/_cpprunctl"
"$cpprunctl" --print-completion fish >"$directory/ctl.fish"
"$cpprun" --print-completion bash >"$directory/run.bash"
"$cpprund" --print-completion bash >"$directory/d.bash"
"$cpprun" --print-completion tcsh >"$directory/complete.tcsh"
names=('$(touch made)' '`touch made`' 'a b' "it's" 'say "x"' ';touch made' '*' '$HOME' '~root'
  '{a,b}' '#x' 'a\b' 'x&touch made&' "'\"\$(touch made)" '-dash' '<made')
# typed SHELL SETUP LINE: the arguments of a program when LINE, TAB and enter are typed.
typed() {
  rm -f "$LOG" "$directory/cwd/made"
  (cd "$directory/cwd" && printf '%s\n%s\t\n\025exit\n' "$2" "$3" |
    PATH=$directory/bin:$PATH TERM=xterm HOME=$directory timeout 60 script -qec "$1" /dev/null \
      >"$directory/typescript" 2>&1)
  cat "$LOG" 2>/dev/null
  [ ! -e "$directory/cwd/made" ] || echo "AND IT RAN"
}
if command -v script >/dev/null; then
  for name in "${names[@]}"; do
    printf '%s\n' "$name" >"$NAMES"
    expect bash "cpprunctl stop TAB" "stop $name" \
      "$(typed "bash --norc --noprofile -i" "set +H; source $directory/ctl.bash" "cpprunctl stop " |
        paste -sd ' ')"
    if command -v zsh >/dev/null; then
      expect zsh "cpprunctl stop TAB" "stop $name" "$(typed "zsh -f -i" \
        "autoload -Uz compinit && compinit -u -D; source $directory/_cpprunctl" "cpprunctl stop " |
        paste -sd ' ')"
    fi
  done
  for name in "${names[@]}" $'new\nline'; do
    [ "$name" != "~root" ] || continue  # bash takes it for the directory and adds a slash
    rm -rf "$directory/cwd" && mkdir "$directory/cwd" && touch "$directory/cwd/$name"
    for line in "cpprunctl keygen " "cpprun --config " "cpprun " "cpprund --secret-file "; do
      expect bash "$line TAB" "$name" "$(typed "bash --norc --noprofile -i" \
        "set +H; source $directory/ctl.bash; source $directory/run.bash; source $directory/d.bash" \
        "$line" | grep -vx -e keygen -e --config -e --secret-file)"
    done
    if command -v tcsh >/dev/null; then
      expect tcsh "cpprun TAB" "$name" \
        "$(typed "tcsh -f" "set histchars=''; source $directory/complete.tcsh" "cpprun ")"
    fi
  done
  rm -rf "$directory/cwd" && mkdir "$directory/cwd"
fi
if command -v fish >/dev/null; then
  for name in "${names[@]}"; do
    printf '%s\n' "$name" >"$NAMES"
    expect fish "cpprunctl stop TAB" "$name" "$(cd "$directory/cwd" && PATH=$directory/bin:$PATH \
      HOME=$directory fish --no-config \
      -c "source $directory/ctl.fish; complete -C 'cpprunctl stop '" | cut -f1
      [ ! -e "$directory/cwd/made" ] || echo "AND IT RAN")"
  done
fi

[ "$("$cpprun" --print-completion ksh x 2>&1 | head -1)" = \
  "cpprun: error: --print-completion=ksh is not one of bash, zsh, fish, tcsh" ] || failed=1
if command -v man >/dev/null && command -v groff >/dev/null; then
  for program in "$cpprun" "$cpprund" "$cpprunctl"; do
    "$program" --print-man >"$directory/page.1"
    warnings=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$directory/page.1" 2>&1 >/dev/null)
    expect man "warnings: ${program##*/}" "" "$warnings"
    flags=$("$program" --help | grep -oE '^  (-[a-zA-Z],? ?)?--[a-z-]+' | grep -oE -- '--[a-z-]+')
    [ "$(wc -w <<<"$flags")" -gt 3 ] || failed=1
    shown=$(LC_ALL=C.UTF-8 MANWIDTH=80 man -l "$directory/page.1" | col -b)
    for flag in $flags; do
      grep -q -- "$flag" <<<"$shown" || expect man "$program" "$flag" "a page without it"
    done
  done
fi
exit $failed

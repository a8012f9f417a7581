#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# inside.sh, in a bare Debian whose first process is systemd: the commands of docs/install.md (in
# the file `commands` beside this one, as the .deb is), and more that people do with an
# installation; prints what it did.
set -euo pipefail
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
fail() { printf 'in this Debian: %s\n' "$*"; exit 1; }

# do_it COMMAND…: prints it, runs it, and prints the end of its output, which stays in $said.
do_it() {
  local shown=${title:-$*}
  printf '# %s\n' "${shown#bash -c }"
  said=$(timeout 120 "$@" 2>&1 </dev/null) || fail "exit code $?: $said"
  tail -n 3 <<<"$said" | cut -c 1-150
}

cd "$(dirname "$0")"
mapfile -t commands <commands
while [[ ${commands[0]} != *disable* ]]; do
  do_it bash -c "${commands[0]}"
  commands=("${commands[@]:1}")
done

for page in cpprun cpprunctl cpprund; do
  do_it env MANWIDTH=80 man "$page"
  grep -q -- "--version" <<<"$said" || fail "man $page shows no flags"
done

# What TAB does: bash-completion loads the file at the first use of the command.
tab='source /usr/share/bash-completion/bash_completion
  if declare -F _comp_load >/dev/null; then _comp_load "$1"; else _completion_loader "$1"; fi
  COMP_WORDS=("$1" "$2") COMP_CWORD=1 COMP_LINE="$1 $2" COMP_POINT=${#COMP_LINE}
  "$(complete -p "$1" | sed "s/.*-F \([^ ]*\).*/\1/")" "$1" "$2" "$1"
  echo "${COMPREPLY[*]}"'
for program in cpprun cpprunctl cpprund; do
  title="$program --vers (and a TAB)" do_it bash -c "$tab" - "$program" --vers
  [[ $said == "--version"* ]] || fail "no completion of $program"
done

do_it systemd-analyze verify /usr/lib/systemd/system/cpprund.{service,socket}
[[ -z $said ]] || fail "systemd does not like the units: $said"

# A job of two workers, with a secret or without, at the daemon that systemd starts for it.
job() {
  do_it cpprun --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29400 \
    "$@" --no-python sh -c 'echo "rank $RANK of $WORLD_SIZE"'
  local rank
  for rank in 0 1; do
    grep -q "rank $rank of 2" <<<"$said" || fail "no output of rank $rank: $said"
  done
}
job --rdzv-id=deb
do_it systemctl show -p ActiveState -p User -p DynamicUser cpprund.service
grep -q ActiveState=active <<<"$said" || fail "the service does not run"
do_it systemctl stop cpprund.socket cpprund.service

# The same by hand, with a secret, for which the package's OpenSSL is opened.
do_it cpprunctl keygen /run/secret
coproc DAEMON { exec cpprund --host 127.0.0.1 --port 29400 --secret-file /run/secret 2>&1; }
daemon=$DAEMON_PID
read -r -t 60 line <&"${DAEMON[0]}" || fail "cpprund with a secret says nothing"
job --rdzv-id=secret --secret-file=/run/secret
kill -TERM "$daemon"
wait "$daemon" || fail "cpprund ended with exit code $?"

# docs/systemd.md, from its first line to its last; what it says of jobs is run twice.
rm -f /etc/cpprun.secret
systemctl stop cpprund.socket cpprund.service
ranks=0
while IFS= read -r command; do
  do_it bash -c "$command"
  ! grep -q "rank 1 of 2" <<<"$said" || ranks=$((ranks + 1))
  [[ $command != *is-active* || $said == active ]] || fail "it is not active"
done <systemd
((ranks == 3)) || fail "the jobs of docs/systemd.md printed $ranks ranks"
rm -rf /etc/cpprun.secret /etc/cpprund /etc/systemd/system/cpprund.service.d /etc/default/cpprund

for command in "${commands[@]}"; do do_it bash -c "$command"; done
left=$(find /usr -name '*cpprun*')
[[ -z $left ]] || fail "something is left: $left"

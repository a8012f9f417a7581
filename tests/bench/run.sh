#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The benchmarks by name; ./dev bench builds first and then runs this. Each prints the tables of
# docs/performance.md that are under its name there, in less than four minutes on a quiet machine.
#
#   run.sh BUILD-DIRECTORY [NAME…]    PYTHON: an interpreter that imports torch; without, no peers
#   run.sh --known [NAME…]         only says whether these exist
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

names=(store kept rendezvous launch restart upgrade hosts idle words lease status hangs worker)
python=${PYTHON:-}
bin=$1
shift
for name in "$@"; do
  [[ " ${names[*]} " == *" $name "* ]] && continue
  printf 'dev: unknown benchmark "%s"; there are: %s\n' "$name" "${names[*]}" >&2
  exit 64
done
[[ $bin != --known ]] || exit 0

title() { printf '\n## %s\n\n' "$*"; }

launcher_bench() {
  local program=$1
  shift
  "$bin/tests/bench/$program" --cpprun "$bin/launcher/cpprun" \
    --bare "$bin/tests/bench/bare_launcher" --worker "$bin/tests/bench/launch_worker" \
    ${python:+--python "$python"} "$@"
}

bench_store() {
  title "The store"
  "${python:-python3}" tests/bench/store_bench.py --build "$bin"
  title "The store through an agent"
  "${python:-python3}" tests/bench/local_store_bench.py --build "$bin"
  "$bin/tests/bench/node_stores_bench"
}

bench_kept() {
  title "A store that goes on where its cpprund is lost"
  "${python:-python3}" tests/bench/kept_store_bench.py --build "$bin"
  title "The cpprund that leads is lost"
  if [[ -n $python ]] && command -v etcd >/dev/null; then
    "$python" tests/bench/lost_leader_bench.py --build "$bin" --python "$python"
  else
    echo "skipped: it takes etcd (Debian's etcd-server) and a Python with torch"
  fi
}

bench_rendezvous() {
  title "Meeting"
  local alone=()
  [[ -n $python ]] || alone=(--no-peer)
  "${python:-python3}" tests/bench/rendezvous_bench.py --build "$bin" "${alone[@]}"
  "${python:-python3}" tests/bench/daemon_restart_bench.py "$bin/rendezvous/cpprund"
  "${python:-python3}" tests/bench/daemon_restart_bench.py "$bin/rendezvous/cpprund" 1000 5 100000
}

bench_launch() {
  title "Launching"
  launcher_bench launch_bench
}

bench_restart() {
  title "Restarting"
  launcher_bench restart_bench --rounds 15
  title "Restarting PyTorch workers"
  if [[ -n $python ]]; then
    "$python" tests/bench/warm_bench.py "$bin/launcher/cpprun" --cpp="$bin/tests/worker/ddp_worker"
  else
    echo "skipped: it takes a Python with torch"
  fi
}

bench_upgrade() {
  title "Replacing cpprun under running workers"
  "${python:-python3}" tests/bench/upgrade_bench.py "$bin/launcher/cpprun" "$bin/launcher/cpprunctl"
}

bench_hosts() {
  title "All hosts by one command"
  "${python:-python3}" tests/bench/hosts_bench.py "$bin/launcher/cpprun"
}

bench_idle() {
  title "Standing by"
  launcher_bench idle_bench
}

bench_words() {
  title "The workers' words"
  "${python:-python3}" tests/bench/words_bench.py --build "$bin"
}

bench_lease() {
  title "Leases under load"
  "${python:-python3}" tests/bench/lease_bench.py --build "$bin"
}

bench_status() {
  title "Looking at a job"
  "$bin/tests/bench/status_bench"
  "${python:-python3}" tests/bench/status_bench.py --build "$bin"
}

bench_hangs() {
  title "The stacks of 10,000 ranks"
  "$bin/tests/bench/hang_bench"
  title "A thousand ranks hang"
  "${python:-python3}" tests/bench/hang_crowd_bench.py "$bin"
}

bench_worker() {
  title "The worker library"
  if [[ -z $python || ! -e $bin/tests/bench/worker_load ]]; then
    printf 'note: no LibTorch, or no Python with torch, here\n'
    return
  fi
  "$python" tests/bench/worker_bench.py --build "$bin"
}

[[ $# -gt 0 ]] || set -- "${names[@]}"
for name in "$@"; do "bench_$name"; done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# ./dev check-root SUITE [COMMAND…]: a bare Debian or Ubuntu by debootstrap, in it a clone of HEAD,
# and there `./dev demo` and `./dev test`, or the command. Sourced by dev; run as a script it enters
# the root. Kept in build/roots: the bare root and apt's downloads. Every change to the root is
# dropped at the end.

ubuntu_suites=(jammy noble questing resolute)

# bare_root SUITE DIRECTORY [PACKAGE,…]: creates it once, from debootstrap's default mirror. 1:
# debootstrap failed, see DIRECTORY.log.
bare_root() {
  local suite=$1 directory=$2 mirror="" components=main script=()
  [[ ! -e $directory/is_whole ]] || return 0
  if [[ " ${ubuntu_suites[*]} " == *" $suite "* ]]; then
    # Debian's debootstrap may not know the name yet; all Ubuntu releases use the same script.
    components=main,universe
    script=(/usr/share/debootstrap/scripts/gutsy)
    [[ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]] ||
      note "dev: no ubuntu-archive-keyring here: debootstrap does not check $suite's signature"
  fi
  rm -rf "$directory" && mkdir -p "$directory"
  debootstrap --variant=minbase --components="$components" ${3:+--include="$3"} "$suite" \
    "$directory" "$mirror" "${script[@]}" >"$directory.log" 2>&1 && touch "$directory/is_whole"
}

check_root() {
  local suite=${1:-} bare="$PWD/build/roots/${1:-}" code=0
  [[ -n $suite ]] || stop "check-root takes a suite of Debian or Ubuntu: bookworm, trixie, noble"
  shift
  [[ $EUID -eq 0 ]] || stop "check-root makes a root of its own, which takes root"
  need_packages debootstrap git util-linux
  [[ -e $bare/is_whole ]] || say "Making a bare $suite"
  bare_root "$suite" "$bare" || { tail -n 5 "$bare.log" >&2; stop "no $suite can be made here"; }
  [[ -z $(git status --porcelain -uno) ]] || note "dev: changes without a commit are not checked"
  root_work=$(mktemp -d "$bare.XXXXXX")
  trap 'rm -rf "$root_work"' EXIT
  mkdir -p "$root_work"/{upper,work,root} "$bare.debs" "$(ccache_directory)"
  lay_out_root "$root_work/upper"
  git clone --quiet --no-hardlinks . "$root_work/upper/srv/cpprun"
  [[ $# -gt 0 ]] || set -- ./dev demo "&&" ./dev test
  say "In a bare $suite: $*"
  setpriv --pdeathsig KILL unshare --mount --pid --ipc --uts --fork --kill-child \
    bash tests/check_root.sh "$bare" "$root_work" "$(ccache_directory)" "$*" </dev/null || code=$?
  say "In a bare $suite, commit $(git rev-parse --short=12 HEAD), $*: exit code $code"
  return "$code"
}

ccache_directory() { echo "${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}"; }

# How this machine reaches packages and names: apt's settings, pip's, certificates, servers.
lay_out_root() {
  local file
  mkdir -p "$1"/{srv,etc/apt/apt.conf.d,usr/sbin}
  apt-config dump | grep -iE '^Acquire::(.*proxy|http|check-|retries|allow)' \
    >"$1/etc/apt/apt.conf.d/90host" || true
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/xdg/pip \
    /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates; do
    [[ ! -e $file ]] || { mkdir -p "$1$(dirname "$file")" && cp -rL "$file" "$1$file"; }
  done
  printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"  # no package starts a service
  chmod +x "$1/usr/sbin/policy-rc.d"
}

# inside BARE WORK CCACHE COMMAND: in namespaces of its own, whose mounts end with it. `pivot_root`
# and not `chroot`: tests make namespaces, which the kernel refuses in a chroot.
inside() {
  local bare=$1 root=$2/root directory variables=() name
  mount --make-rprivate /
  mount -t overlay overlay "$root" -o "lowerdir=$bare,upperdir=$2/upper,workdir=$2/work" ||
    { mount --bind "$2/work" "$root" && cp -a "$bare/." "$2/upper/." "$root"; }
  local home="$root/root"
  mkdir -p "$home/.cache/ccache"
  mount --bind "$3" "$home/.cache/ccache"
  mount --bind "$bare.debs" "$root/var/cache/apt/archives"
  for directory in sys dev; do mount --rbind "/$directory" "$root/$directory"; done
  for directory in run tmp; do mount -t tmpfs tmpfs "$root/$directory"; done
  mount -t proc proc "$root/proc"
  while read -r name; do variables+=("$name=${!name}"); done < <(compgen -e |
    grep -iE '^((https?|ftp|all|no)_proxy|PIP_.*|SSL_CERT_FILE|CI|CPPRUN_.*|CCACHE_MAXSIZE)$')
  cd "$root"
  pivot_root . mnt
  exec env -i "${variables[@]}" HOME=/root LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot . /bin/bash -c 'umount -l /mnt && cd /srv/cpprun && eval "$1"' check-root "$4"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  inside "$@"
fi

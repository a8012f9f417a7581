# SPDX-License-Identifier: BSD-3-Clause
# ./dev package --check [wheel|tar|static|deb|library|aarch64|same|source…]: installs what is in
# dist/ where nothing of this repository is, and uses it. Sourced by cmake/package/package.sh. What
# cannot be had here is skipped, with the reason. Every command of docs/install.md is run by these.
#   same     builds everything once more, from a clone in another directory, and compares the bytes
#   source   builds from a clone as a person does; both are run where they are named only

source tests/check_root.sh

checks=(wheel tar static deb library aarch64)

check_packages() {
  settle_version
  need_tools
  compgen -G "dist/cpprun-$version-*.whl" >/dev/null || stop "dist/ is empty; first: ./dev package"
  [[ $# -gt 0 ]] || set -- "${checks[@]}"
  local name
  for name in "$@"; do
    [[ " ${checks[*]} same source " == *" $name "* ]] ||
      stop "package --check knows ${checks[*]} same source, not \"$name\""
  done
  (cd dist && sha256sum --quiet -c SHA256SUMS) || stop "dist/ is not what SHA256SUMS says"
  check_root=$(mktemp -d)
  trap 'rm -rf "$check_root"' EXIT
  skipped=0
  for name in "$@"; do
    say "Checking: $name"
    "check_$name"
  done
  say "All that was checked works; $skipped skipped"
}

skip() {
  note "  skipped: $*"
  skipped=$((skipped + 1))
}

# commands_of SECTION: the commands of docs/install.md, for this processor.
commands_of() {
  local found
  found=$(awk -v section="## $1" '/^## / { here = $0 == section }
    /^```/ { inside = !inside; next } here && inside' docs/install.md)
  [[ -n $found ]] || stop "docs/install.md has no commands in \"$1\""
  [[ $(uname -m) != aarch64 ]] || found=$(sed 's/x86_64/aarch64/g; s/amd64/arm64/g' <<<"$found")
  printf '%s\n' "$found"
}

is_root() { [[ $EUID -eq 0 ]] || { skip "a root of its own takes root" && return 1; }; }

# both_ranks TEXT WHERE: two workers have printed their ranks.
both_ranks() {
  local rank
  for rank in 0 1; do
    grep -q "rank $rank of 2" <<<"$1" || stop "$2: no output of rank $rank: $1"
  done
  note "  $2: a job of two workers ran"
}

# apart UNSHARE-ARGUMENT…: with mounts and processes of its own, which end with it and with us.
apart() { setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child "$@"; }

in_root() { apart --root="$1" --mount-proc "${@:2}"; }

# --- wheel --------------------------------------------------------------------------------------

check_wheel() {
  local venv="$check_root/venv" said program
  find_libtorch
  "${python:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip config --site --quiet set global.no-index true
  cp tests/package/who.py "$check_root/train.py"
  ln -s "$PWD"/dist/*.whl "$check_root/"
  said=$(in_venv "$venv" bash -euc "cd $check_root && $(commands_of Wheel)")
  both_ranks "$said" "wheel in a fresh venv"
  for program in cpprun cpprund cpprunctl; do
    in_venv "$venv" "$program" --version >/dev/null || stop "wheel: $program does not start"
    [[ -e $venv/share/bash-completion/completions/$program ]] || stop "wheel: no completion"
  done
  said=$(cd "$check_root" && in_venv "$venv" python -c 'import cpprun; cpprun.beat(1)
cpprun.run(["--standalone", "--nproc-per-node=2", "train.py"])')
  both_ranks "$said" "cpprun.run() from Python"
  said=$(cd "$check_root" && env -u CPPRUN_STORE_LIBRARY PATH="$venv/bin:$PATH" python -c '
import cpprun.store as store
with store.Server() as server, store.Client("127.0.0.1", server.port) as client:
    client.set("greeting", b"hello")
    print(client.get("greeting").decode(), store._find_library())')
  [[ $said == "hello $venv"* ]] || stop "wheel: the store of the package does not work: $said"
  said=$(in_venv "$venv" pip show cpprun)
  grep -q '^Requires: *$' <<<"$said" || stop "wheel: something is required: $said"
  if [[ -n $libtorch ]]; then
    said=$(PYTHONPATH=$(dirname "$libtorch") in_venv "$venv" cpprun --standalone \
      --nproc-per-node=2 worker/examples/python/train.py)
    both_ranks "$said" "wheel in a fresh venv, with PyTorch"
  else
    skip "there is no PyTorch here to train with"
  fi
  in_venv "$venv" pip uninstall --quiet --yes cpprun
  [[ ! -e $venv/bin/cpprun ]] || stop "wheel: something is left after its removal"
}

in_venv() { PATH="$1/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1 "${@:2}"; }

# --- tarballs -----------------------------------------------------------------------------------

# empty_root MACHINE NAME DIRECTORY: only the programs of a tarball and a static worker.
empty_root() {
  mkdir -p "$3"/{proc,tmp,dev}
  tar -C "$3" --strip-components=2 -xzf "dist/$2.tar.gz" "$2/bin"
  "$zig" cc -target "$1-linux-musl" -Os -o "$3/worker" tests/package/worker.c
}

check_static() {
  is_root || return 0
  local root="$check_root/static" said
  empty_root "$(uname -m)" "cpprun-$version-linux-$(uname -m)-static" "$root"
  note "  the root has: $(cd "$root" && echo *)"
  said=$(in_root "$root" /cpprun --standalone --nproc-per-node=2 --no-python /worker)
  both_ranks "$said" "static programs in an empty root"
  (umask 077 && in_root "$root" /cpprunctl keygen /tmp/secret >/dev/null)
  if said=$(in_root "$root" /cpprund --port 0 --secret-file /tmp/secret 2>&1); then
    stop "the static cpprund takes a secret"
  fi
  grep -q "a static build of cpprun cannot load" <<<"$said" || stop "no message: $said"
  note "  static programs refuse a secret: $(tail -n 1 <<<"$said")"
}

# What the C library of this machine brings that a program asks for, with the dynamic linker.
libraries_of() { ldd "$1" | grep -o '/[^ ]*'; }

check_tar() {
  local root="$check_root/tar" library said
  mkdir "$check_root/person"
  said=$(cd dist && HOME="$check_root/person" bash -euc "$(cd .. && commands_of Tarball)")
  both_ranks "$said" "programs in a user's own directory"
  said=$(python3 tests/operating/hardened_test.py "$check_root/person/.local/bin/cpprund" 2>&1) ||
    stop "cpprund is not hardened like that of ./dev build: $said"
  is_root || return 0
  empty_root "$(uname -m)" "cpprun-$version-linux-$(uname -m)" "$root"
  while read -r library; do
    install -D "$library" "$root$library"
  done < <(libraries_of "$root/cpprun")
  note "  the root has: $(cd "$root" && find . -type f -printf '%P ')"
  said=$(in_root "$root" /cpprun --standalone --nproc-per-node=2 --no-python /worker)
  both_ranks "$said" "programs in a root with the C library alone"
}

# --- .deb ---------------------------------------------------------------------------------------

# A bare Debian is created once. systemd starts in a copy of it, as the first process of namespaces
# of its own.
check_deb() {
  is_root || return 0
  command -v debootstrap >/dev/null || { skip "there is no debootstrap here" && return 0; }
  local suite root file
  file="cpprun_${version}_$([[ $(uname -m) == aarch64 ]] && echo arm64 || echo amd64).deb"
  for suite in bookworm trixie; do
    bare_root "$suite" "build/package/roots/$suite" man-db,bash-completion,systemd ||
      { skip "debootstrap makes no $suite (build/package/roots/$suite.log)" && continue; }
    root="$check_root/$suite"
    cp -a "build/package/roots/$suite" "$root"
    cp "dist/$file" tests/package/inside.sh "$root/mnt/"
    commands_of "Debian and Ubuntu" >"$root/mnt/commands"
    awk '/^```/ { inside = !inside; next } inside' docs/systemd.md >"$root/mnt/systemd"
    apart --net --ipc --uts --cgroup bash tests/package/boot.sh "$root" /bin/bash /mnt/inside.sh \
      </dev/null ||
      { cat "$root/mnt/said" >&2 && stop "the .deb does not work in $suite"; }
    sed 's/^/  /' "$root/mnt/said"
    note "  .deb in a bare $suite: installed, read, completed, started, used, removed"
    rm -rf "$root"
  done
}

# --- libraries ----------------------------------------------------------------------------------

# Foreign projects, in C and in C++, with nothing but find_package(cpprun) and the tarball.
check_library() {
  local name part said
  name="cpprun-$version-linux-$(uname -m)"
  mkdir "$check_root/library"
  for part in "$name" "lib$name"; do tar -C "$check_root/library" -xzf "dist/$part.tar.gz"; done
  for part in c env; do
    { cmake -G Ninja -S "tests/embed/$part" -B "$check_root/library/$part" \
      "-DCMAKE_PREFIX_PATH=$check_root/library/lib$name" &&
      cmake --build "$check_root/library/$part"; } >"$check_root/library/log" 2>&1 ||
      { cat "$check_root/library/log" >&2 && stop "the libraries do not fit a foreign project"; }
  done
  said=$("$check_root/library/c/embed_c")
  grep -q "hello, visitor 1" <<<"$said" || stop "the embedded store says: $said"
  said=$("$check_root/library/$name/bin/cpprun" --standalone \
    --nproc-per-node=2 --no-python "$check_root/library/env/embed_env")
  both_ranks "$said" "libraries in foreign projects"
}

# --- aarch64 ------------------------------------------------------------------------------------

check_aarch64() {
  local root="$check_root/aarch64" name="cpprun-$version-linux-aarch64" said qemu libraries
  [[ -e dist/$name.tar.gz ]] || { skip "dist/ has nothing for aarch64" && return 0; }
  qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
  [[ -n $qemu ]] || { skip "there is no qemu-aarch64-static here" && return 0; }
  empty_root aarch64 "$name-static" "$root"
  said=$("$qemu" "$root/cpprun" --standalone --nproc-per-node=2 --no-python "$qemu" "$root/worker")
  both_ranks "$said" "static programs for aarch64 under qemu"
  libraries=/usr/aarch64-linux-gnu
  [[ -e $libraries/lib/libc.so.6 ]] ||
    { skip "no C library for aarch64 here (Debian: libc6-arm64-cross)" && return 0; }
  empty_root aarch64 "$name" "$root"
  said=$("$qemu" -L "$libraries" "$root/cpprun" --standalone --nproc-per-node=2 --no-python \
    "$qemu" "$root/worker")
  both_ranks "$said" "programs for aarch64 and glibc under qemu"
}

# --- the same bytes -----------------------------------------------------------------------------

# copy_of_commit DIRECTORY: a clone, with the tools and PyTorch of this directory.
copy_of_commit() {
  local name
  [[ -z $(git status --porcelain -uno) ]] || stop "commit first: a clone has what is committed"
  git clone --quiet . "$1"
  for name in .venv .venv-package; do [[ ! -e $name ]] || ln -s "$PWD/$name" "$1/$name"; done
}

# Nothing of the first build helps the second, but for the tools.
check_same() {
  local copy="$check_root/copy" name
  copy_of_commit "$copy"
  (cd "$copy" && CCACHE_DISABLE=1 ./dev package) || stop "the clone does not build"
  for name in dist/*; do
    cmp "$name" "$copy/$name" || stop "built twice, $name is not the same"
  done
  note "  built twice, in two directories: the same bytes"
}

check_source() {
  local copy="$check_root/source" venv="$check_root/source-venv" commands name
  copy_of_commit "$copy"
  mkdir "$check_root/builder"
  python3 -m venv "$venv"
  commands=$(commands_of Source)
  (cd "$copy" && HOME="$check_root/builder" in_venv "$venv" bash -euc "$commands") ||
    stop "the commands of docs/install.md, \"Source\", do not work"
  for name in "$check_root/builder/.local" "$venv"; do
    "$name/bin/cpprun" --standalone --nproc-per-node=1 --no-python true || stop "source: no cpprun"
  done
  note "  source: built and installed, twice"
}

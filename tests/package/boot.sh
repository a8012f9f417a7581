#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# boot.sh ROOT COMMAND…: systemd as the first process of that root, and COMMAND as its only service;
# exits with the command's exit code. Runs in namespaces of its own (check.sh), so that all its
# mounts and processes end with it. The command's output is in ROOT/mnt/said.
set -euo pipefail
root=$1
shift

cat >"$root/etc/systemd/system/check.service" <<UNIT
[Unit]
Description=$*
Requires=basic.target
After=basic.target
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStart=$*
StandardOutput=truncate:/mnt/said
StandardError=inherit
UNIT

mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for directory in run tmp dev; do mount -t tmpfs tmpfs "$root/$directory"; done
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ip link set lo up
cd "$root"
# A service can have users of its own (PrivateUsers) only if "/" is the root of the mounts, which
# chroot alone does not do. The old root is unmounted from /run.
pivot_root . run
exec env -i container=check PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /bin/sh -c 'umount -l /run
  exec /lib/systemd/systemd --unit=check.service --log-target=null --show-status=no'

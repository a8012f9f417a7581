// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/evidence.h"

#include <doctest/doctest.h>
#include <syscall.h>

namespace process_snapshot_test {

using namespace cpprun;

TEST_CASE("the activity of a process is described as far as it is known") {
  CHECK(to_text(ProcessSnapshot{.pid = 42, .name = "train", .state = 'S'}) ==
        "train (pid 42) was in state S (sleeping)");
  const ProcessSnapshot look{
      .pid = 42,
      .name = "python3",
      .state = 'D',
      .wait_channel = "nfs_wait",
      .system_call = SYS_fsync,
      .threads = 8,
      .kernel_stack = {"rpc_wait_bit_killable", "nfs_wait", "nfs_file_fsync", "do_fsync", "entry"}};
  CHECK(to_text(look) ==
        "python3 (pid 42) was in state D (uninterruptible sleep, waiting for a disk or driver), in "
        "nfs_wait, system call fsync, 8 threads, kernel stack rpc_wait_bit_killable < nfs_wait < "
        "nfs_file_fsync");
}

TEST_CASE("an unknown system call is printed by its number") {
  CHECK(system_call_name(SYS_futex) == "futex");
  CHECK(system_call_name(99999) == "99999");
}

TEST_CASE("every process state has a description") {
  for (const char state : {'R', 'S', 'D', 'T', 't', 'Z', 'I'}) {
    CHECK_FALSE(state_text(state).empty());
  }
}

}  // namespace process_snapshot_test

// SPDX-License-Identifier: BSD-3-Clause
#include "tests/failures/staged.h"

namespace cpprun::failures {

namespace {

const std::string in_own_mounts = "mount --make-rprivate / && ";

Staged by(const Stage& stage, const std::string& way, const std::string& cause,
          const std::string& advice) {
  return {.name = "victim: " + way,
          .program = {stage.victim, "1", way},
          .cause = cause,
          .advice = advice};
}

Staged with_mount(Staged staged, const std::string& command) {
  staged.needs = Needs::root;
  staged.before = in_own_mounts + command;
  return staged;
}

Staged with_message(Staged staged, const std::string& message) {
  staged.message = message;
  return staged;
}

}  // namespace

std::vector<Staged> crashes(const Stage& stage) {
  const auto way = [&](const char* name, const char* cause, const char* advice) {
    return by(stage, name, cause, advice);
  };
  std::vector<Staged> all = {
      way("segfault", "segfault", "core dump"),
      way("illegal_instruction", "wrong_cpu", "-march"),
      way("divide", "arithmetic_error", "gdb"),
      way("abort", "aborted", "see the end of its output"),
      with_message(way("throw", "cpp_exception", "see the message"), "the weights are wrong"),
      with_message(way("too_much_memory", "memory_refused", "ulimit -v"), "std::bad_alloc"),
      with_message(way("free_twice", "memory_corrupted", "-fsanitize=address"), "free()"),
      with_message(way("smash_stack", "memory_corrupted", "-fsanitize=address"), "stack smashing"),
      way("shrink_mapped", "bus_error", "shortened while in use"),
      way("write_to_closed_pipe", "pipe_closed", "find the reader"),
      way("burn", "cpu_time_limit", "ulimit -t"),
      way("large_file", "file_too_large", "ulimit -f"),
      way("forbidden_call", "forbidden_call", "seccomp"),
      way("killed", "killed", "the batch system"),
      way("terminated", "terminated", "time limit"),
      way("alarm", "signalled", "find the sender"),
      with_message(way("bind_twice", "address_in_use", "ss -ltnp"), "Address already in use"),
      way("full_disk", "disk_full", "df -h"),
      way("many_files", "too_many_files", "ulimit -n"),
      way("many_threads", "too_many_processes", "OMP_NUM_THREADS"),
      way("assert", "assertion_failed", "the assertion and its location"),
      with_message(way("record_error", "cuda_out_of_memory", "smaller batch"), "Tried to allocate"),
      way("silent", "silent_exit", "see the end of its output"),
      with_mount(way("fill_shared_memory", "shared_memory_full", "--shm-size"),
                 "mount -t tmpfs -o size=1m tmpfs /dev/shm"),
      with_mount(way("fill_unlinked_memory", "shared_memory_small", "--shm-size"),
                 "mount -t tmpfs -o size=1m tmpfs /dev/shm"),
      with_mount(way("read_only_disk", "read_only", "remount it read-write"),
                 "mount -t tmpfs -o ro tmpfs /mnt"),
  };
  auto memory = way("eat_memory", "out_of_memory", "give the job more memory");
  memory.needs = Needs::memory_group;
  all.push_back(memory);
  auto stubborn = way("silent", "silent_exit", "see the end of its output");
  stubborn.name = "a peer that ignores TERM is not the cause";
  stubborn.program.push_back(fifo(stage, "stubborn"));
  stubborn.options = {"--shutdown-timeout=1"};
  all.push_back(stubborn);
  return all;
}

}  // namespace cpprun::failures

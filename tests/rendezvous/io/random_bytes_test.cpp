// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/random_bytes.h"

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

namespace random_bytes_test {

using namespace cpprun;

namespace {

// From here on, these system calls of this process fail with `error`.
template <class... Calls>
bool lose(int error, Calls... calls) {
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long call : {static_cast<long>(calls)...}) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct Ended {
  int code = -1;
  std::string said;  // on stderr
};

// The result of a child that runs that; 77: not possible on this system.
template <class What>
Ended in_child(What what) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    if (!lose(ENOSYS, SYS_getrandom)) ::_exit(77);
    ::_exit(what());
  }
  ::close(ends[1]);
  Ended ended;
  std::array<char, 256> chunk{};
  for (ssize_t got = 0; (got = ::read(ends[0], chunk.data(), chunk.size())) > 0;) {
    ended.said.append(chunk.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  return ended;
}

}  // namespace

TEST_CASE("every byte is random, whatever their number") {
  std::vector<unsigned char> bytes(100'000);
  REQUIRE(fill_randomly(bytes));
  for (int value = 0; value < 256; ++value) CHECK(std::ranges::count(bytes, value) > 0);
  CHECK(random_word() != random_word());
}

TEST_CASE("without getrandom in the kernel the bytes come from /dev/urandom") {
  const Ended ended = in_child([] { return random_word() != random_word() ? 0 : 1; });
  if (ended.code == 77) {
    MESSAGE("not run: this kernel supports no system call filter");
    return;
  }
  CHECK(ended.code == 0);
}

TEST_CASE("without a source of random bytes the program ends with a message") {
  const Ended ended = in_child([] {
    // No limit on descriptors: UBSan needs a pipe to inspect an object, and reports it without one.
    if (!lose(EMFILE, SYS_openat)) return 77;
    std::array<unsigned char, 4> bytes{};
    if (fill_randomly(bytes)) return 2;
    (void)random_word();
    return 3;
  });
  if (ended.code == 77) {
    MESSAGE("not run: this kernel supports no system call filter");
    return;
  }
  CHECK(ended.code == 1);
  CHECK(ended.said ==
        "cpprun: error: cannot get random numbers from the kernel (getrandom: Function not "
        "implemented; /dev/urandom: Too many open files)\n");
}

}  // namespace random_bytes_test

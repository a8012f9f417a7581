// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/spawn.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "worker/env/io/environment.h"

namespace spawn_test {

using namespace cpprun;

namespace {

Result<SpawnedEnd> run(const std::string& script, int workers) {
  std::vector<Environment> environments;
  for (int rank = 0; rank < workers; ++rank) {
    environments.push_back(read_environment());
    environments.back()["RANK"] = std::to_string(rank);
  }
  return spawn_workers({"/bin/sh", "-c", script}, environments);
}

}  // namespace

TEST_CASE("the parent's wait returns 0 when all spawned workers succeed") {
  const auto end = run("exit 0", 3);
  REQUIRE(end.has_value());
  CHECK(end->exit_code == 0);
}

TEST_CASE("the first spawned worker that fails ends the others, and is named") {
  const auto end = run("[ $RANK = 1 ] && exit 7; exec sleep 600", 3);
  REQUIRE(end.has_value());
  CHECK(end->exit_code == 7);
  CHECK(end->local_rank == 1);
}

TEST_CASE("a spawned worker that is ended before its program starts does not act for its parent") {
  static const pid_t parent = ::getpid();
  // Also visible to the forked copies of this process.
  static auto* const copies = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
             -1, 0));
  REQUIRE(copies != MAP_FAILED);
  struct sigaction counts {
  }, before{};
  counts.sa_handler = [](int) {
    if (::getpid() != parent) ++*copies;
  };
  REQUIRE(::sigaction(SIGTERM, &counts, &before) == 0);
  constexpr int attempts = 50;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    // The first fails at once, so that the last get SIGTERM as early as possible.
    const auto end = run("[ $RANK != 0 ] || exit 7; exec sleep 600", 3);
    REQUIRE(end.has_value());
    CHECK(end->exit_code == 7);
    CHECK(end->local_rank == 0);
  }
  REQUIRE(::sigaction(SIGTERM, &before, nullptr) == 0);
  CHECK(*copies == 0);
  ::munmap(copies, sizeof *copies);
}

TEST_CASE("a spawned worker that dies of a signal has the exit code that a shell would report") {
  const auto end = run("kill -SEGV $$", 1);
  REQUIRE(end.has_value());
  CHECK(end->exit_code == 139);
}

TEST_CASE("a program that cannot be executed ends with 126") {
  const auto end = spawn_workers({"/nowhere/program"}, {Environment{}});
  REQUIRE(end.has_value());
  CHECK(end->exit_code == 126);
}

TEST_CASE("a program finds its own path, and a free port") {
  CHECK(own_program().has_value());
  CHECK(free_port().value_or(0) != 0);
}

}  // namespace spawn_test

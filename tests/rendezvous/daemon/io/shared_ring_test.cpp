// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/shared_ring.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace shared_ring_test {

using namespace cpprun;

namespace {

std::unique_ptr<SharedRing> ring_of(std::size_t bytes) {
  auto ring = SharedRing::make(bytes);
  REQUIRE(ring);
  return *std::move(ring);
}

// Resident shared memory, which the rings use and the heap does not.
std::uint64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::uint64_t kibibytes = 0;
  for (std::string word; status >> word;) {
    if (word == "RssShmem:") status >> kibibytes;
  }
  return kibibytes * 1024;
}

SharedRing::Entry entry_of(std::uint64_t ticket) {
  return {.kind = 2, .number = 7, .generation = 3, .ticket = ticket};
}

}  // namespace

TEST_CASE("entries come out in order when the ring wraps around") {
  const auto ring = ring_of(1024);
  std::uint64_t put = 0;
  std::uint64_t taken = 0;
  for (int turn = 0; turn < 1000; ++turn) {
    for (int count = turn % 4; count > 0; --count) {
      const std::string bytes(put * 37 % 150, static_cast<char>('a' + put % 26));
      if (ring->put(entry_of(put), bytes) != SharedRing::Put::full) ++put;
    }
    if (const auto entry = ring->next()) {
      CHECK(entry->ticket == taken);
      CHECK(entry->number == 7);
      CHECK(entry->generation == 3);
      CHECK(entry->bytes == std::string(taken * 37 % 150, static_cast<char>('a' + taken % 26)));
      ring->drop();
      ++taken;
    }
  }
  CHECK(taken > 500);
}

TEST_CASE("only a put into a drained ring wakes the reader") {
  const auto ring = ring_of(1024);
  CHECK(ring->put(entry_of(1), "a") == SharedRing::Put::wake);
  CHECK(ring->put(entry_of(2), "b") == SharedRing::Put::quiet);
  ring->drop();
  CHECK(ring->put(entry_of(3), "c") == SharedRing::Put::quiet);
  ring->drop();
  ring->drop();
  CHECK(ring->is_empty());
  CHECK(ring->put(entry_of(4), "d") == SharedRing::Put::wake);
}

TEST_CASE("a ring that is emptied repeatedly does not grow its resident memory") {
  const auto ring = ring_of(64 << 20);
  const std::string bytes(1000, 'x');
  const std::uint64_t before = resident_bytes();
  for (std::uint64_t ticket = 0; ticket < 200'000; ++ticket) {
    REQUIRE(ring->put(entry_of(ticket), bytes) != SharedRing::Put::full);
    if (ticket % 10 != 9) continue;
    for (std::uint64_t each = ticket - 9; each <= ticket; ++each) {
      REQUIRE(ring->next()->ticket == each);
      ring->drop();
    }
  }
  CHECK(ring->is_empty());
  CHECK(resident_bytes() > before);
  CHECK(resident_bytes() < before + (8 << 20));
}

TEST_CASE("a ring that restarts from its beginning keeps its full capacity") {
  const auto ring = ring_of(64 << 10);
  REQUIRE(ring->put(entry_of(1), std::string(2 << 10, 'x')) == SharedRing::Put::wake);
  ring->drop();
  REQUIRE(ring->put(entry_of(2), "small") == SharedRing::Put::wake);
  CHECK(ring->held() < 100);
  CHECK(ring->put(entry_of(3), std::string(60 << 10, 'y')) == SharedRing::Put::quiet);
  CHECK(ring->put(entry_of(4), std::string(4 << 10, 'z')) == SharedRing::Put::full);
  CHECK(ring->next()->bytes == "small");
  ring->drop();
  CHECK(ring->next()->bytes == std::string(60 << 10, 'y'));
  CHECK(ring->put(entry_of(5), std::string(3 << 10, 'z')) == SharedRing::Put::quiet);
  ring->drop();
  CHECK(ring->next()->bytes == std::string(3 << 10, 'z'));
  ring->drop();
  CHECK(ring->is_empty());
  CHECK(ring->held() == 0);
}

TEST_CASE("an entry that does not fit is rejected, and the others stay") {
  const auto ring = ring_of(256);
  CHECK(ring->put(entry_of(1), std::string(100, 'x')) == SharedRing::Put::wake);
  CHECK(ring->put(entry_of(2), std::string(100, 'y')) == SharedRing::Put::full);
  CHECK(ring->next()->bytes == std::string(100, 'x'));
  ring->drop();
  CHECK_FALSE(ring->next());
  CHECK(ring->put(entry_of(3), std::string(300, 'z')) == SharedRing::Put::full);
  CHECK_FALSE(ring->is_incomplete());
  ring->set_incomplete(true);
  CHECK(ring->is_incomplete());
}

TEST_CASE("an entry survives a SIGKILL of the process that put it") {
  const auto ring = ring_of(1 << 20);
  for (std::uint64_t run = 1; run <= 50; ++run) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      (void)ring->put(entry_of(run), std::string(run * 100, 'x'));
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    const auto entry = ring->next();
    REQUIRE(entry);
    CHECK(entry->ticket == run);
    CHECK(entry->bytes.size() == run * 100);
    ring->drop();
  }
}

}  // namespace shared_ring_test

// SPDX-License-Identifier: BSD-3-Clause
// The writer of a state directory, with a client that reads the answers late.

#include "rendezvous/daemon/io/state_writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <set>
#include <thread>

#include "rendezvous/io/file_descriptor.h"
#include "tests/integration/directory.h"

namespace state_writer_test {

using namespace cpprun;

namespace {

// With room for only a few of the writer's answers, but for many requests.
struct Writer {
  Writer() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
    const int least = 1;
    REQUIRE(::setsockopt(theirs.get(), SOL_SOCKET, SO_SNDBUF, &least, sizeof least) == 0);
    const timeval timeout{.tv_sec = 20, .tv_usec = 0};
    REQUIRE(::setsockopt(ours.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
    thread = std::thread([this] {
      StateWriter(directory.get(), false, *ring).run(theirs.get());
      theirs.reset();
    });
  }
  ~Writer() {
    ours.reset();
    thread.join();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  integration::Directory place;
  FileDescriptor directory{::open(place.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  std::unique_ptr<SharedRing> ring = *SharedRing::make(1024 * 1024);
  FileDescriptor ours;
  FileDescriptor theirs;
  std::thread thread;
};

}  // namespace

TEST_CASE("every request is answered, even if the client reads no answers meanwhile") {
  const Writer writer;
  std::uint64_t last = 0;
  // In each turn, many more requests than answers fit at once.
  for (int turn = 0; turn < 20; ++turn) {
    std::set<std::uint64_t> unanswered;
    for (int request = 0; request < 150; ++request) {
      // There is no such log, which is an answer of its own.
      const auto kind = static_cast<std::uint64_t>(StateEntry::again);
      const SharedRing::Entry entry{.kind = kind, .number = ++last, .ticket = last};
      REQUIRE(writer.ring->put(entry, "0") != SharedRing::Put::full);
      unanswered.insert(last);
    }
    const auto wake = StateWake::now;
    REQUIRE(::send(writer.ours.get(), &wake, sizeof wake, 0) == sizeof wake);
    while (true) {
      StateReply answer;
      REQUIRE(::recv(writer.ours.get(), &answer, sizeof answer, 0) == sizeof answer);
      if (answer.kind == StateReply::through && answer.ticket == last) break;
      if (answer.kind == StateReply::through) continue;
      CHECK(answer.kind == StateReply::log_failed);
      CHECK(answer.error_number == ENOENT);
      CHECK(unanswered.erase(answer.ticket) == 1);
    }
    CHECK(unanswered.empty());
  }
}

}  // namespace state_writer_test

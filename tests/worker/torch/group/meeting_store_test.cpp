// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/meeting_store.h"

// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "tests/worker/temporary_directory.h"
#include "tests/worker/two_ranks.h"
#include "worker/torch/group/process_group.h"

namespace meeting_store_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

ProcessGroupOptions by_file(const std::string& path, int rank, int world_size) {
  return {.init_method = "file://" + path,
          .rank = rank,
          .world_size = world_size,
          .join_timeout = 400ms};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a launcher's store keeps the values that ranks exchange") {
  const testing::HostedStore hosted;
  const Placement placement{
      .context = hosted.context_of(0, 1), .meeting = Meeting::tcp, .file = {}};
  const auto store = open_meeting_store(placement, 60s);
  store->set("greeting", "hello");
  CHECK(store->get_to_str("greeting") == "hello");
}

TEST_CASE("a port without an answer is an error after the timeout") {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(listener, 64) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  Context context = testing::HostedStore().context_of(1, 2);
  context.store.port = ntohs(address.sin_port);
  const std::string reason = testing::failure_of(context, {.join_timeout = 400ms});
  INFO(reason);
  CHECK(contains(reason,
                 "was not reached within 0.4 s: the port accepts connections, but no store "
                 "responds"));
  ::close(listener);
}

TEST_CASE("a group meets at a file, which the last of its ranks removes") {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.file("job.init");
  CHECK(testing::failure_of({}, by_file(path, 0, 1)) == "joined");
  // Nothing is left that could break a second run.
  CHECK(testing::failure_of({}, by_file(path, 0, 1)) == "joined");
}

TEST_CASE("a missing rank is an error after the timeout, and its file is then stale") {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.file("job.init");
  const std::string first = testing::failure_of({}, by_file(path, 0, 2));
  INFO(first);
  CHECK(contains(first, "rank 1 did not join"));
  const std::string second = testing::failure_of({}, by_file(path, 0, 2));
  INFO(second);
  CHECK(contains(second, "is left from an earlier run (remove it and start again)"));
}

TEST_CASE("a directory that does not exist is named") {
  const std::string reason = testing::failure_of({}, by_file("/nowhere/job.init", 0, 1));
  INFO(reason);
  CHECK(contains(reason, "the store in the file /nowhere/job.init was not reached"));
  CHECK(contains(reason, "check that its directory exists"));
}

TEST_CASE("a file that is not a store is named without waiting") {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.file("job.init");
  const auto reason_for = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    return testing::failure_of({}, by_file(path, 0, 1));
  };
  const std::string text = reason_for("root:x:0:0:root:/root:/bin/bash\n");
  INFO(text);
  CHECK(contains(text, "the store in the file " + path + " was not reached"));
  CHECK(contains(
      text, "the file exists, but is not a store: the record at byte 0 is truncated or invalid"));
  CHECK(contains(reason_for(std::string(64, '\0')), "the record at byte 0 has no key"));
  CHECK(contains(reason_for(std::string("\2\0\0\0/a\5\0\0\0b", 11)), "truncated or invalid"));
  CHECK(reason_for("") == "joined");
  CHECK(contains(testing::failure_of({}, by_file("/dev/null", 0, 1)),
                 "not a store: not a regular file"));
  CHECK(contains(testing::failure_of({}, by_file(directory.file(""), 0, 1)), "three slashes"));
}

TEST_CASE("a locked file is an error after the timeout") {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.file("job.init");
  const int held = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  CHECK(contains(testing::failure_of({}, by_file(path, 0, 1)), "another process holds its lock"));
  ::close(held);
}

}  // namespace meeting_store_test

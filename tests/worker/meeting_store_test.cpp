#include "worker/torch/meeting_store.h"

// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <doctest/doctest.h>

#include "tests/worker/temporary_folder.h"
#include "tests/worker/two_ranks.h"
#include "worker/torch/process_group.h"

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

TEST_CASE("a launcher's store keeps what ranks tell each other") {
  const testing::HostedStore hosted;
  const Placement placement{
      .context = hosted.context_of(0, 1), .meeting = Meeting::tcp, .file = {}};
  const auto store = open_meeting_store(placement, 5s);
  store->set("greeting", "hello");
  CHECK(store->get_to_str("greeting") == "hello");
}

TEST_CASE("a group meets at a file, which goes with the last of its ranks") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("job.init");
  CHECK(testing::failure_of({}, by_file(path, 0, 1)) == "joined");
  // Nothing is left that a second run could stumble over.
  CHECK(testing::failure_of({}, by_file(path, 0, 1)) == "joined");
}

TEST_CASE("a rank that does not come is waited for only so long, and its file is then stale") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("job.init");
  const std::string first = testing::failure_of({}, by_file(path, 0, 2));
  INFO(first);
  CHECK(contains(first, "rank 1 did not arrive"));
  const std::string second = testing::failure_of({}, by_file(path, 0, 2));
  INFO(second);
  CHECK(contains(second, "is left from an earlier run (remove it and start again)"));
}

TEST_CASE("a folder that does not exist is named") {
  const std::string reason = testing::failure_of({}, by_file("/nowhere/job.init", 0, 1));
  INFO(reason);
  CHECK(contains(reason, "the store in the file /nowhere/job.init was not reached"));
  CHECK(contains(reason, "does its folder exist"));
}

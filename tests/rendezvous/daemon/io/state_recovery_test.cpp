// SPDX-License-Identifier: BSD-3-Clause
// What one of several cppruns leaves in its directory.

#include "rendezvous/daemon/io/state_recovery.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/directory.h"

namespace state_recovery_test {

using namespace cpprun;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct Daemon {
  explicit Daemon(const std::string& path) {
    const auto opened = state.open(io, side, path, false);
    REQUIRE_MESSAGE(opened, opened.error().reason);
  }
  template <class Holds>
  bool until(const Holds& holds) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!holds() && std::chrono::steady_clock::now() < deadline) io.run_for(2ms);
    return holds();
  }
  asio::io_context io;
  HelperProcesses side;
  DaemonLog log{io, side, STDERR_FILENO, DaemonOptions{.log_level = LogLevel::error}};
  StateRecovery state{log};
};

// What the next one finds: of itself, and of how many jobs.
struct Left {
  std::optional<SelfRecord> self;
  std::vector<std::string> jobs;
};
Left left_in(const std::string& path) {
  asio::io_context io;
  HelperProcesses side;
  auto opened = StateJournal::open(io, side, {.path = path}, [](LogLevel, const std::string&) {});
  REQUIRE_MESSAGE(opened, opened.error().reason);
  Left left;
  for (const auto& found : (*opened)->take_found()) {
    if (!is_self_record(found.record)) {
      left.jobs.push_back(found.record);
    } else if (auto self = read_self_record(found.record)) {
      left.self = *std::move(self);
    }
  }
  return left;
}

// While somebody has it; its file is the first.
bool is_self_there(const std::string& path) {
  return fs::exists(fs::path(path) / "job-1.state");
}
SelfRecord self_there(const std::string& path) {
  std::ifstream in(fs::path(path) / "job-1.state", std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), {});
  const auto record = record_of_state_file(file);
  return record ? read_self_record(*record).value_or(SelfRecord{}) : SelfRecord{};
}

}  // namespace

TEST_CASE("what one has kept itself is forgotten, too, when another one has led since") {
  const integration::Directory place;
  {
    Daemon daemon(place.path());
    daemon.state.keep("a", "record");
    daemon.state.keep("b", "record");
    daemon.state.keep_self({.life = "1", .set = "default", .has_all = true});
    daemon.state.forget_all();
    daemon.state.keep("c", "of the next lead");
  }
  const Left left = left_in(place.path());
  CHECK(left.jobs == std::vector<std::string>{"of the next lead"});
  REQUIRE(left.self);
  CHECK(left.self->life == "1");
  CHECK_FALSE(left.self->has_all);
}

TEST_CASE("a folder that does not take everything does not say that it has it") {
  const integration::Directory place;
  const SelfRecord self{.life = "1", .set = "default", .has_all = true};
  Daemon daemon(place.path());
  daemon.state.keep_self(self);
  REQUIRE(daemon.until([&] { return is_self_there(place.path()); }));
  // As on a disk that is full.
  const std::vector<fs::path> unfinished = {fs::path(place.path()) / "job-1.new",
                                            fs::path(place.path()) / "job-2.new"};
  for (const auto& each : unfinished) fs::create_directory(each);
  daemon.state.keep("a", "record");
  REQUIRE(daemon.until([&] { return daemon.state.is_durable() == false; }));
  daemon.state.keep_self(self);
  CHECK(daemon.until([&] { return !is_self_there(place.path()); }));
  for (const auto& each : unfinished) fs::remove(each);
  REQUIRE(daemon.until([&] { return daemon.state.is_durable() == true; }));
  CHECK(is_self_there(place.path()));
  CHECK_FALSE(self_there(place.path()).has_all);
  // It has everything again, as whoever leads says when it has written all.
  daemon.state.keep_self(self);
  CHECK(daemon.until([&] { return self_there(place.path()).has_all; }));
}

}  // namespace state_recovery_test

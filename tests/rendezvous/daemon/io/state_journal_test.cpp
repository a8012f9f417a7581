// SPDX-License-Identifier: BSD-3-Clause
// Uses a real directory and a real writer process.

#include "rendezvous/daemon/io/state_journal.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "rendezvous/daemon/state_file.h"

namespace state_journal_test {

using namespace cpprun;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct Fixture {
  Fixture() {
    path = (fs::temp_directory_path() / "cpprund-state-XXXXXX").string();
    REQUIRE(::mkdtemp(path.data()) != nullptr);
  }
  ~Fixture() { fs::remove_all(path); }
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(fs::path(path) / name) << bytes;
  }
  bool has(const std::string& name) const { return fs::exists(fs::path(path) / name); }
  std::string path;
};

struct Daemon {
  Result<void> open(const std::string& path, Duration timeout = 10s, bool syncs = false) {
    auto opened = StateJournal::open(
        io, side, {.path = path, .timeout = timeout, .syncs = syncs},
        [this](LogLevel, const std::string& sentence) { said.push_back(sentence); });
    if (!opened) return tl::unexpected(opened.error());
    directory = *std::move(opened);
    return {};
  }
  bool until(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!holds() && std::chrono::steady_clock::now() < deadline) io.run_for(2ms);
    return holds();
  }
  bool says(const std::string& words) const {
    for (const auto& each : said) {
      if (each.find(words) != std::string::npos) return true;
    }
    return false;
  }
  asio::io_context io;
  HelperProcesses side;
  std::vector<std::string> said;
  std::unique_ptr<StateJournal> directory;
};

std::vector<std::string> records_in(const std::string& path) {
  Daemon next;
  REQUIRE(next.open(path));
  std::vector<std::string> records;
  for (auto& [number, record, log] : next.directory->take_found())
    records.push_back(std::move(record));
  return records;
}

std::string refusal(const std::string& path, Duration timeout = 10s) {
  Daemon daemon;
  const auto opened = daemon.open(path, timeout);
  return opened ? std::string() : opened.error().reason;
}

}  // namespace

TEST_CASE("the newest record survives a SIGKILL of the daemon") {
  const Fixture place;
  for (int run = 0; run < 60; ++run) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      Daemon daemon;
      if (!daemon.open(place.path)) ::_exit(1);
      for (const auto& [number, record, log] : daemon.directory->take_found()) {
        daemon.directory->adopt(number, "j");
      }
      for (int word = 0; word <= run; ++word) {
        daemon.directory->keep("j",
                               std::to_string(word) + std::string(std::size_t(run) * 4000, 'x'));
      }
      // Many jobs, more than one batch.
      for (int job = 0; run == 59 && job < 100; ++job) {
        daemon.directory->keep("many" + std::to_string(job), "x");
      }
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFSIGNALED(status));
    const auto records = records_in(place.path);
    REQUIRE(records.size() == (run == 59 ? 101U : 1U));
    CHECK(records[0].substr(0, 3) ==
          (std::to_string(run) + std::string(std::size_t(run) * 4000, 'x')).substr(0, 3));
  }
}

TEST_CASE("the next daemon knows when its predecessor was last alive") {
  const Fixture place;
  const auto wall = [] {
    return std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
  };
  Daemon daemon;
  REQUIRE(daemon.open(place.path));
  CHECK_FALSE(daemon.directory->last_alive());
  const WallTime begun = wall();
  daemon.directory->keep("j", "x");
  REQUIRE(daemon.until([&] { return daemon.directory->is_idle() && place.has("alive"); }));
  // As if it had been written an hour ago.
  const auto old_time = fs::last_write_time(fs::path(place.path) / "alive") - 1h;
  fs::last_write_time(fs::path(place.path) / "alive", old_time);
  const auto renewed = [&] {
    return fs::last_write_time(fs::path(place.path) / "alive") > old_time + 30min;
  };
  // The file is renewed without any other activity.
  CHECK(daemon.until(renewed));
  daemon.directory.reset();
  Daemon next;
  REQUIRE(next.open(place.path));
  REQUIRE(next.directory->last_alive());
  CHECK(*next.directory->last_alive() >= begun);
  CHECK(*next.directory->last_alive() <= wall());
}

TEST_CASE("each job has its own file and number, and both are freed with it") {
  const Fixture place;
  {
    Daemon daemon;
    REQUIRE(daemon.open(place.path));
    for (const char* job : {"a", "b/../c", "d"}) daemon.directory->keep(job, job);
    daemon.directory->forget("a");
    daemon.directory->forget("unknown");
    CHECK(daemon.until([&] { return daemon.directory->is_idle(); }));
  }
  Daemon next;
  REQUIRE(next.open(place.path));
  const auto found = next.directory->take_found();
  REQUIRE(found.size() == 2);
  CHECK(found[0].record == "b/../c");
  CHECK(found[1].record == "d");
  next.directory->adopt(found[0].number, "b/../c");
  next.directory->adopt(found[1].number, "d");
  next.directory->keep("e", "e");
  next.directory->forget("d");
  CHECK(next.until([&] { return next.directory->is_idle(); }));
  next.directory.reset();
  CHECK(records_in(place.path) == std::vector<std::string>{"b/../c", "e"});
}

TEST_CASE("a directory belongs to one daemon") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path));
  CHECK(refusal(place.path, 20ms) ==
        "--state: \"" + place.path + "\" is in use by another cpprund (pid " +
            std::to_string(::getpid()) + "); give each daemon its own directory");
}

TEST_CASE("a missing directory is created, and a directory of another user is rejected") {
  const Fixture place;
  CHECK(refusal(place.path + "/new").empty());
  CHECK(fs::status(place.path + "/new").permissions() == fs::perms::owner_all);
  CHECK(refusal(place.path + "/no/parent").starts_with("--state: cannot create the directory"));
  place.put("file", "");
  CHECK(refusal(place.path + "/file").starts_with("--state: cannot open the directory"));
  REQUIRE(::chmod(place.path.c_str(), 0777) == 0);
  CHECK(refusal(place.path).ends_with("\" is writable by other users (mode 777); chmod 700"));
  REQUIRE(::chmod(place.path.c_str(), 0700) == 0);
  if (::geteuid() != 0) return;  // Only root can change the owner.
  REQUIRE(::chown(place.path.c_str(), 12345, 0) == 0);
  CHECK(refusal(place.path).find("is owned by uid 12345, and cpprund runs as uid 0") !=
        std::string::npos);
}

TEST_CASE("a damaged record is renamed and reported, and unrelated files are left alone") {
  const Fixture place;
  place.put("job-3.state", "cpprund-state 1 90 00000000\nshort");
  place.put("job-4.state", state_file_of("whole"));
  place.put("job-5.new", "half");
  place.put("job-9.damaged", "of an earlier day");
  REQUIRE(::mkfifo((place.path + "/job-6.state").c_str(), 0600) == 0);
  place.put("notes.txt", "mine");
  Daemon daemon;
  REQUIRE(daemon.open(place.path));
  CHECK(daemon.directory->take_found().size() == 1);
  CHECK(
      daemon.says("job-3.state\" is damaged: 5 bytes instead of 90; its content is lost, and the "
                  "file was renamed to job-3.damaged"));
  CHECK(daemon.says("job-6.state is not a regular file; its job or its store is lost"));
  daemon.directory->keep("new", "record");
  CHECK(daemon.until([&] { return daemon.directory->is_idle(); }));
  CHECK(place.has("job-10.state"));  // No number is used twice.
  CHECK(place.has("job-3.damaged"));
  CHECK(place.has("notes.txt"));
  CHECK_FALSE(place.has("job-3.state"));
  CHECK_FALSE(place.has("job-5.new"));
}

TEST_CASE("a record of a later version is not touched") {
  const Fixture place;
  place.put("job-3.state", "cpprund-state 2 and so on");
  CHECK(refusal(place.path)
            .ends_with("job-3.state\" is of version 2, but this cpprund reads version "
                       "1; use the cpprund that wrote it, or another directory"));
  CHECK(place.has("job-3.state"));
}

TEST_CASE("a full disk is reported once, and records are written when there is space") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path, 500ms));
  // The limit acts like a full disk; the writer blocks SIGXFSZ.
  const rlimit small{100, RLIM_INFINITY};
  REQUIRE(::prlimit(daemon.directory->writer(), RLIMIT_FSIZE, &small, nullptr) == 0);
  daemon.directory->keep("j", "short");
  CHECK(daemon.until([&] { return daemon.directory->is_idle(); }));
  const std::string lengthy(1000, 'x');
  for (int time = 0; time < 5; ++time) daemon.directory->keep("j", lengthy);
  CHECK(daemon.until(
      [&] { return daemon.says("cannot write to \"" + place.path + "\": File too"); }));
  CHECK_FALSE(daemon.directory->is_idle());
  const rlimit large{RLIM_INFINITY, RLIM_INFINITY};
  REQUIRE(::prlimit(daemon.directory->writer(), RLIMIT_FSIZE, &large, nullptr) == 0);
  CHECK(daemon.until([&] { return daemon.says("resumed; all jobs are saved"); }));
  CHECK(daemon.said.size() == 2);  // The warning appears once, however many writes failed.
  daemon.directory.reset();
  CHECK(records_in(place.path) == std::vector<std::string>{lengthy});
}

TEST_CASE("a stalled disk blocks nothing, and the newest records are written when it recovers") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path, 500ms));
  REQUIRE(::kill(daemon.directory->writer(), SIGSTOP) == 0);
  for (int word = 0; word < 2000; ++word) {
    daemon.directory->keep("job" + std::to_string(word % 300), std::to_string(word));
  }
  CHECK(daemon.until([&] { return daemon.says("the disk is not responding; cpprund continues"); }));
  CHECK_FALSE(daemon.directory->is_idle());
  REQUIRE(::kill(daemon.directory->writer(), SIGCONT) == 0);
  CHECK(daemon.until([&] { return daemon.directory->is_idle(); }));
  daemon.directory.reset();
  const auto records = records_in(place.path);
  CHECK(records.size() == 300);
  for (const auto& record : records) CHECK(std::atoi(record.c_str()) >= 1700);
}

TEST_CASE("the daemon's own suspension does not count as a stalled disk") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path, 2s));
  // Both the writer and this loop are suspended.
  REQUIRE(::kill(daemon.directory->writer(), SIGSTOP) == 0);
  daemon.directory->keep("j", "x");
  std::this_thread::sleep_for(2500ms);
  daemon.io.run_for(100ms);
  REQUIRE(::kill(daemon.directory->writer(), SIGCONT) == 0);
  CHECK(daemon.until([&] { return daemon.directory->is_idle(); }));
  CHECK(daemon.said.empty());
}

TEST_CASE("an image that waits for room is released when the writer has exited") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path));
  bool is_notified = false;
  daemon.directory->on_logs({.failed = {}, .written = [&](std::uint64_t) { is_notified = true; }});
  REQUIRE(::kill(daemon.directory->writer(), SIGKILL) == 0);
  CHECK(daemon.until([&] { return daemon.says("has exited"); }));
  CHECK(is_notified);
  CHECK(daemon.directory->has_room_for_image());
}

TEST_CASE("a synced record is reported as written only when it is, in order") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path, 10s, true));
  CHECK(daemon.directory->is_durable());
  CHECK(daemon.directory->written_through() == 0);
  // The stopped writer writes nothing.
  REQUIRE(::kill(daemon.directory->writer(), SIGSTOP) == 0);
  const auto first = daemon.directory->keep("a", "1");
  const auto second = daemon.directory->keep("b", "1");
  const auto third = daemon.directory->keep("a", "2");
  CHECK(first < second);
  CHECK(second < third);
  CHECK(daemon.directory->written_through() < first);
  bool has_changed = false;
  daemon.directory->on_change([&has_changed] { has_changed = true; });
  REQUIRE(::kill(daemon.directory->writer(), SIGCONT) == 0);
  CHECK(daemon.until([&] { return daemon.directory->written_through() == third; }));
  CHECK(has_changed);
  CHECK(daemon.directory->is_idle());
  const auto gone = daemon.directory->forget("a");
  CHECK(daemon.directory->written_through() < gone);
  CHECK(daemon.until([&] { return daemon.directory->written_through() == gone; }));
  daemon.directory.reset();
  CHECK(records_in(place.path) == std::vector<std::string>{"1"});
}

TEST_CASE("nothing waits for a disk that was reported as stalled") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path, 500ms, true));
  REQUIRE(::kill(daemon.directory->writer(), SIGSTOP) == 0);
  const auto change = daemon.directory->keep("j", "record");
  CHECK(daemon.directory->written_through() < change);
  bool was_notified = false;
  daemon.directory->on_change(
      [&] { was_notified = daemon.directory->written_through() == change; });
  CHECK(daemon.until([&] { return was_notified; }));
  CHECK(daemon.says("the disk is not responding; cpprund continues"));
  CHECK_FALSE(daemon.directory->is_durable());
  const auto second = daemon.directory->keep("j", "record");
  CHECK(second > change);
  CHECK(daemon.directory->written_through() == second);
  REQUIRE(::kill(daemon.directory->writer(), SIGCONT) == 0);
  CHECK(daemon.until([&] { return daemon.directory->is_durable(); }));
  // Without a writer nothing waits either.
  REQUIRE(::kill(daemon.directory->writer(), SIGKILL) == 0);
  CHECK(daemon.until([&] { return !daemon.directory->is_durable(); }));
  const auto third = daemon.directory->keep("j", "later");
  CHECK(daemon.directory->written_through() == third);
}

}  // namespace state_journal_test

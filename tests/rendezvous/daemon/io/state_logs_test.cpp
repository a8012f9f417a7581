// SPDX-License-Identifier: BSD-3-Clause
// The logs of stores in a real directory, with a real writer process.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "rendezvous/daemon/io/state_journal.h"
#include "rendezvous/daemon/io/state_writer.h"

namespace state_logs_test {

using namespace cpprun;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct Fixture {
  Fixture() {
    path = (fs::temp_directory_path() / "cpprun-logs-XXXXXX").string();
    REQUIRE(::mkdtemp(path.data()) != nullptr);
  }
  ~Fixture() { fs::remove_all(path); }
  std::vector<std::string> logs() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".log") names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  std::string path;
};

struct Daemon {
  bool open(const std::string& path, bool syncs = false) {
    auto opened = StateJournal::open(
        io, side, {.path = path, .timeout = 10s, .syncs = syncs},
        [this](LogLevel, const std::string& sentence) { said.push_back(sentence); });
    if (!opened) refusal = opened.error().reason;
    if (!opened) return false;
    directory = *std::move(opened);
    directory->on_logs({.failed = [this](const std::string& job,
                                         const std::string& why) { failed = job + ": " + why; },
                        .written = [this](std::uint64_t ticket) { written = ticket; }});
    return true;
  }
  // Starts a job whose log can be resumed.
  std::uint64_t begin(const std::string& job) {
    directory->keep(job, "record");
    const std::uint64_t generation = directory->new_generation();
    const std::string head = log_file_head(RoundNumber{5}, directory->syncs(), directory->boot());
    CHECK(directory->put_log(StateEntry::begin, job, generation, head));
    CHECK(directory->put_log(StateEntry::whole, job, generation, {}));
    return generation;
  }
  template <class Holds>
  bool until(const Holds& holds) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!holds() && std::chrono::steady_clock::now() < deadline) io.run_for(2ms);
    return holds();
  }
  asio::io_context io;
  HelperProcesses side;
  std::vector<std::string> said;
  std::string failed;
  std::string refusal;
  std::uint64_t written = 0;
  std::unique_ptr<StateJournal> directory;
};

std::optional<StateJournal::FoundLog> log_found(const std::string& path) {
  Daemon next;
  REQUIRE_MESSAGE(next.open(path), next.refusal);
  auto found = next.directory->take_found();
  REQUIRE(found.size() == 1);
  return found[0].log;
}

// Runs `work` in a process and kills it right afterwards.
template <class Work>
void killed_after(const Work& work) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    work();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFSIGNALED(status));
}

}  // namespace

TEST_CASE("a log writer has more work until the ring is drained") {
  const Fixture place;
  const FileDescriptor directory(::open(place.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  auto ring = SharedRing::make(1 << 20);
  REQUIRE(ring);
  for (std::uint64_t ticket = 1; ticket <= 300; ++ticket) {
    const StateEntry kind = ticket == 1 ? StateEntry::begin : StateEntry::add;
    const SharedRing::Entry entry{.kind = static_cast<std::uint64_t>(kind), .ticket = ticket};
    REQUIRE((*ring)->put(entry, "x") != SharedRing::Put::full);
  }
  StateWriter writer(directory.get(), false, **ring);
  CHECK(writer.work().has_more);
  const auto last = writer.work();
  CHECK(last.replies.back().ticket == 300);
  CHECK_FALSE(last.has_more);
}

TEST_CASE("a log is complete after a SIGKILL of the daemon") {
  const Fixture place;
  for (int run = 1; run <= 30; ++run) {
    killed_after([&] {
      Daemon daemon;
      if (!daemon.open(place.path)) ::_exit(1);
      for (const auto& found : daemon.directory->take_found())
        daemon.directory->adopt(found.number, "j");
      const auto generation = daemon.begin("j");
      for (int word = 0; word < run * 10; ++word) {
        daemon.directory->put_log(StateEntry::add, "j", generation, std::to_string(word) + ",");
      }
    });
    const auto log = log_found(place.path);
    REQUIRE(log);
    CHECK(log->round == RoundNumber{5});
    const std::string last = std::to_string(run * 10 - 1) + ",";
    CHECK(log->bytes.substr(log->bytes.size() - last.size()) == last);
    CHECK(std::ranges::count(log->bytes, ',') == run * 10);
    CHECK(place.logs().size() == 1);
  }
}

TEST_CASE("a log whose writer was killed too may be incomplete and is not resumed") {
  const Fixture place;
  {
    Daemon daemon;
    REQUIRE(daemon.open(place.path));
    const auto generation = daemon.begin("j");
    daemon.directory->put_log(StateEntry::add, "j", generation, "x");
    CHECK(daemon.until([&] { return daemon.written > 0 && daemon.directory->is_idle(); }));
    ::kill(daemon.directory->writer(), SIGKILL);
    CHECK(daemon.until([&] { return !daemon.directory->is_durable(); }));
  }
  CHECK_FALSE(log_found(place.path));
}

TEST_CASE("an unfinished image is ignored, and the previous log stays valid") {
  const Fixture place;
  killed_after([&] {
    Daemon daemon;
    if (!daemon.open(place.path)) ::_exit(1);
    const auto first = daemon.begin("j");
    daemon.directory->put_log(StateEntry::add, "j", first, "first");
    const auto second = daemon.directory->new_generation();
    const std::string head = log_file_head(RoundNumber{5}, false, daemon.directory->boot());
    daemon.directory->put_log(StateEntry::begin, "j", second, head);
    daemon.directory->put_log(StateEntry::add, "j", second, "image");
    daemon.directory->put_log(StateEntry::add, "j", first, ", and more");
  });
  const auto log = log_found(place.path);
  REQUIRE(log);
  CHECK(log->bytes == "first, and more");
}

TEST_CASE("a log is resumed by one daemon after another and stays complete") {
  const Fixture place;
  killed_after([&] {
    Daemon daemon;
    if (!daemon.open(place.path)) ::_exit(1);
    daemon.directory->put_log(StateEntry::add, "j", daemon.begin("j"), "a");
  });
  for (const char* const word : {"b", "c", "d"}) {
    killed_after([&] {
      Daemon daemon;
      if (!daemon.open(place.path)) ::_exit(1);
      const auto found = daemon.directory->take_found().at(0);
      daemon.directory->adopt(found.number, "j");
      const auto& log = *found.log;
      daemon.directory->put_log(StateEntry::again, "j", log.generation, std::to_string(log.size));
      daemon.directory->put_log(StateEntry::add, "j", log.generation, word);
    });
  }
  // If a daemon resumes the log and its writer is killed, the log cannot be resumed again.
  {
    Daemon daemon;
    REQUIRE(daemon.open(place.path));
    const auto found = daemon.directory->take_found().at(0);
    REQUIRE(found.log);
    CHECK(found.log->bytes == "abcd");
    daemon.directory->adopt(found.number, "j");
    const auto ticket = daemon.directory->put_log(StateEntry::again, "j", found.log->generation,
                                                  std::to_string(found.log->size));
    CHECK(daemon.until([&] { return daemon.written >= *ticket; }));
    ::kill(daemon.directory->writer(), SIGKILL);
    CHECK(daemon.until([&] { return !daemon.directory->is_durable(); }));
  }
  CHECK_FALSE(log_found(place.path));
}

TEST_CASE("the log of a job is removed with it, and so is its previous generation") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path));
  (void)daemon.begin("j");
  const auto generation = daemon.begin("j");
  const auto ticket = daemon.directory->put_log(StateEntry::add, "j", generation, "x");
  REQUIRE(ticket);
  CHECK(daemon.until([&] { return daemon.written >= *ticket; }));
  CHECK(place.logs() == std::vector<std::string>{"job-1.2.log"});
  const auto last = daemon.directory->put_log(StateEntry::gone, "j", generation, {});
  CHECK(daemon.until([&] { return daemon.written >= *last; }));
  CHECK(place.logs().empty());
}

TEST_CASE("a synced log is acknowledged when it is on disk and survives a reboot") {
  const Fixture place;
  {
    Daemon daemon;
    REQUIRE(daemon.open(place.path, true));
    const auto generation = daemon.begin("j");
    const auto ticket = daemon.directory->put_log(StateEntry::add, "j", generation, "x");
    REQUIRE(ticket);
    CHECK(daemon.until([&] { return daemon.written >= *ticket; }));
    CHECK(daemon.until([&] { return daemon.directory->is_idle(); }));
    ::kill(daemon.directory->writer(), SIGKILL);
    CHECK(daemon.until([&] { return !daemon.directory->is_durable(); }));
  }
  // In the same boot, a missing end means that the writer was killed.
  CHECK_FALSE(log_found(place.path));
  const fs::path file = fs::path(place.path) / place.logs().at(0);
  std::ifstream in(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto boot = bytes.find(' ', bytes.find(" 5 1") + 3) + 1;
  bytes.replace(boot, bytes.find('\n') - boot, "another");
  std::ofstream(file, std::ios::binary) << bytes;
  const auto log = log_found(place.path);
  REQUIRE(log);
  CHECK(log->bytes == "x");
}

TEST_CASE("a synced log entry does not wait for a stalled disk") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path, true));
  const auto generation = daemon.begin("j");
  CHECK(daemon.until([&] { return daemon.written >= daemon.directory->last_ticket(); }));
  CHECK(daemon.until([&] { return daemon.directory->is_idle(); }));
  REQUIRE(::kill(daemon.directory->writer(), SIGSTOP) == 0);
  bool has_changed = false;
  daemon.directory->on_change([&has_changed] { has_changed = true; });
  const auto ticket = daemon.directory->put_log(StateEntry::add, "j", generation, "x");
  REQUIRE(ticket);
  CHECK(daemon.until([&] { return !daemon.directory->is_durable(); }));
  CHECK(has_changed);
  CHECK_FALSE(daemon.directory->is_idle());
  REQUIRE(::kill(daemon.directory->writer(), SIGCONT) == 0);
  CHECK(daemon.until([&] { return daemon.written >= *ticket && daemon.directory->is_durable(); }));
  CHECK(daemon.directory->is_idle());
}

TEST_CASE("a daemon that resumes a log does not wait for a stalled disk") {
  const Fixture place;
  killed_after([&] {
    Daemon daemon;
    if (!daemon.open(place.path)) ::_exit(1);
    (void)daemon.begin("j");
  });
  Daemon daemon;
  REQUIRE(daemon.open(place.path));
  const auto found = daemon.directory->take_found().at(0);
  daemon.directory->adopt(found.number, "j");
  REQUIRE(found.log);
  REQUIRE(::kill(daemon.directory->writer(), SIGSTOP) == 0);
  const std::string size = std::to_string(found.log->size);
  REQUIRE(daemon.directory->put_log(StateEntry::again, "j", found.log->generation, size));
  CHECK(daemon.until([&] { return !daemon.directory->is_durable(); }));
  REQUIRE(::kill(daemon.directory->writer(), SIGCONT) == 0);
  CHECK(daemon.until([&] { return daemon.directory->is_durable(); }));
}

TEST_CASE("a full disk is reported, and the log is removed") {
  const Fixture place;
  killed_after([&] {
    Daemon daemon;
    // The writer, a child, inherits the limit.
    const rlimit limit{2000, 2000};
    (void)::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0 || !daemon.open(place.path)) ::_exit(1);
    const auto generation = daemon.begin("j");
    daemon.directory->put_log(StateEntry::add, "j", generation, std::string(10'000, 'x'));
    if (!daemon.until([&] { return daemon.failed == "j: File too large"; })) ::_exit(2);
  });
  CHECK_FALSE(log_found(place.path));
  CHECK(place.logs().empty());
}

TEST_CASE("damage in the middle of a log is reported with its position, and the log is dropped") {
  const Fixture place;
  killed_after([&] {
    Daemon daemon;
    if (!daemon.open(place.path)) ::_exit(1);
    const auto generation = daemon.begin("j");
    daemon.directory->put_log(StateEntry::add, "j", generation, std::string(1000, 'x'));
    daemon.directory->put_log(StateEntry::add, "j", generation, std::string(1000, 'y'));
  });
  // Waits until the writer has written everything.
  { CHECK(log_found(place.path)); }
  const fs::path file = fs::path(place.path) / place.logs().at(0);
  std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(600);
  damaged.put('z');
  damaged.close();
  Daemon next;
  REQUIRE(next.open(place.path));
  CHECK_FALSE(next.directory->take_found().at(0).log);
  REQUIRE(next.said.size() == 1);
  CHECK(next.said[0].find("is damaged: wrong checksum at byte") != std::string::npos);
  CHECK(next.said[0].find("the store of its job is lost, and its round restarts") !=
        std::string::npos);
}

TEST_CASE("a log of a later version is rejected") {
  const Fixture place;
  killed_after([&] {
    Daemon daemon;
    if (!daemon.open(place.path)) ::_exit(1);
    (void)daemon.begin("j");
  });
  { CHECK(log_found(place.path)); }
  std::ofstream(fs::path(place.path) / place.logs().at(0)) << "cpprund-log 2 5 0 x\n";
  Daemon next;
  CHECK_FALSE(next.open(place.path));
  CHECK(next.refusal.find("is of version 2, but this cpprund reads version 1; use the cpprund that "
                          "wrote it, or another directory") != std::string::npos);
}

TEST_CASE("logs of jobs without a record are removed unread") {
  const Fixture place;
  killed_after([&] {
    Daemon daemon;
    if (!daemon.open(place.path)) ::_exit(1);
    (void)daemon.begin("j");
    (void)daemon.begin("k");
  });
  {
    Daemon daemon;
    REQUIRE(daemon.open(place.path));
  }
  REQUIRE(place.logs().size() == 2);
  fs::remove(fs::path(place.path) / "job-1.state");
  std::ofstream(fs::path(place.path) / "job-1.1.log") << "no log at all";
  Daemon next;
  REQUIRE(next.open(place.path));
  CHECK(next.said.empty());
  CHECK(place.logs() == std::vector<std::string>{"job-2.2.log"});
}

TEST_CASE("an image waits for the disk unless the disk is stalled") {
  const Fixture place;
  Daemon daemon;
  REQUIRE(daemon.open(place.path));
  const auto generation = daemon.begin("j");
  CHECK(daemon.directory->has_room_for_image());
  REQUIRE(::kill(daemon.directory->writer(), SIGSTOP) == 0);
  const std::string slice(1 << 20, 'x');
  for (int mebibyte = 0; mebibyte < 10; ++mebibyte) {
    CHECK(daemon.directory->put_log(StateEntry::add, "j", generation, slice));
  }
  CHECK_FALSE(daemon.directory->has_room_for_image());
  // A stalled disk no longer holds up the image.
  CHECK(daemon.until([&] { return daemon.directory->has_room_for_image(); }));
  CHECK(daemon.until([&] { return !daemon.directory->is_durable(); }));
  REQUIRE(::kill(daemon.directory->writer(), SIGCONT) == 0);
  CHECK(daemon.until([&] { return daemon.written >= daemon.directory->last_ticket(); }));
  CHECK(daemon.directory->has_room_for_image());
}

}  // namespace state_logs_test

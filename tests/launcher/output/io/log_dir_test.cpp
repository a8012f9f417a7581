// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/log_dir.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "proto/bounds.h"

namespace log_dir_test {

using namespace cpprun;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// A folder of the test's own that is TMPDIR, too.
struct Place {
  fs::path root = fs::temp_directory_path() / ("cpprun_log_dir_" + std::to_string(::getpid()));
  Environment environment{{"TMPDIR", root.string()}};
  Place() { fs::create_directories(root); }
  ~Place() { fs::remove_all(root); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  long entries() const { return std::distance(fs::directory_iterator(root), {}); }
};

WorkerSpec spec_in(const std::string& folder) {
  WorkerSpec spec;
  spec.log_directory = folder;
  return spec;
}

WorkerSpec spec_with(const std::string& error_file) {
  WorkerSpec spec;
  spec.error_file = error_file;
  return spec;
}

}  // namespace

TEST_CASE("without logs nothing stays of the private folder, unless somebody else removes it") {
  const Place place;
  const auto folder = (place.root / "private").string();
  const auto error_file = folder + "/attempt_0_0_error.json";
  {
    fs::create_directory(folder);
    auto folders = io::LogDir::make(Config{}, place.environment, folder);
    REQUIRE(folders.has_value());
    CHECK(folders->run_folder().empty());
    CHECK(folders->prepare({spec_with(error_file)}));
    std::ofstream(error_file) << "{}";
    const io::LogDir moved = std::move(*folders);
    CHECK(fs::exists(error_file));
  }
  CHECK(place.entries() == 0);
  {
    fs::create_directory(folder);
    auto folders = io::LogDir::make(Config{}, place.environment, folder);
    REQUIRE(folders.has_value());
    folders->hand_over_folder();
  }
  CHECK(place.entries() == 1);
}

TEST_CASE("an error file of an earlier attempt is not taken for a later one's of that number") {
  const Place place;
  HelperProcesses side;
  auto folders = io::LogDir::make(Config{}, place.environment, place.root, side);
  REQUIRE(folders.has_value());
  const auto spec = spec_with(place.root / "attempt_0_0_error.json");
  REQUIRE(folders->prepare({spec}, side, 60s).has_value());
  std::ofstream(spec.error_file) << "{}";
  REQUIRE(folders->prepare({spec}, side, 60s).has_value());
  CHECK_FALSE(fs::exists(spec.error_file));
}

TEST_CASE("only a job without logs has a private directory, of a name that is new each time") {
  const Place place;
  const auto folders = io::private_folders(Config{}, place.environment);
  REQUIRE(folders.size() == 2);
  CHECK(folders[0].starts_with(place.root.string() + "/cpprun_"));
  CHECK(folders[1].starts_with("/tmp/cpprun_"));
  CHECK(folders != io::private_folders(Config{}, place.environment));
  CHECK(io::private_folders(Config{}, {}).front().starts_with("/tmp/cpprun_"));
  Config config;
  config.logs.root = place.root;
  CHECK(io::private_folders(config, place.environment).empty());
  config.logs = {.disabled = true};
  CHECK(io::private_folders(config, place.environment).empty());
  CHECK(place.entries() == 0);
}

TEST_CASE("a log folder is made where it is asked for, and stays") {
  const Place place;
  Config config;
  config.job = "job/7";
  config.logs.root = place.root / "deep" / "logs";
  std::string run;
  {
    auto folders = io::LogDir::make(config, place.environment, "");
    REQUIRE(folders.has_value());
    run = folders->run_folder();
    CHECK(folders->error_folder().empty());
  }
  CHECK(fs::path(run).parent_path() == *config.logs.root);
  CHECK(fs::path(run).filename().string().starts_with("job_7_"));
  CHECK(fs::is_directory(run));
}

TEST_CASE("redirects without a place go to torchrun's, in the temporary folder, and stay") {
  const Place place;
  Config config;
  config.logs.redirects.everybody.out = true;
  { REQUIRE(io::LogDir::make(config, place.environment, "").has_value()); }
  CHECK(place.entries() == 1);
  CHECK(
      fs::directory_iterator(place.root)->path().filename().string().starts_with("torchelastic_"));
}

TEST_CASE("a TMPDIR that is not on this node does not stop the start") {
  const Place place;
  const Environment environment{{"TMPDIR", place.root / "none"}};
  Config config;
  const auto folders = io::private_folders(config, environment);
  REQUIRE(folders.size() == 2);
  CHECK(folders[0].starts_with((place.root / "none/cpprun_").string()));
  CHECK(folders[1].starts_with("/tmp/cpprun_"));
  CHECK(io::private_folders(config, {{"TMPDIR", "/tmp"}}).size() == 1);
  CHECK(io::private_folders(config, {}).size() == 1);
  config.logs.redirects.everybody.out = true;
  auto logs = io::LogDir::make(config, environment, "");
  REQUIRE(logs.has_value());
  CHECK(logs->note() == "note: TMPDIR=" + (place.root / "none").string() +
                            " cannot be used (No such file or directory); cpprun uses /tmp on this "
                            "node");
  const auto made = fs::path(logs->run_folder()).parent_path();
  CHECK(made.string().starts_with("/tmp/torchelastic_"));
  fs::remove_all(made);
}

TEST_CASE("nothing at all is made where logs are disabled") {
  const Place place;
  Config config;
  config.logs.disabled = true;
  auto folders = io::LogDir::make(config, place.environment, "");
  REQUIRE(folders.has_value());
  CHECK(folders->run_folder().empty());
  CHECK(folders->error_folder().empty());
  CHECK(place.entries() == 0);
}

TEST_CASE("a file in the place of the log folder is an error that names it") {
  const Place place;
  Config config;
  config.logs.root = place.root / "file";
  std::ofstream(*config.logs.root) << "x";
  const auto folders = io::LogDir::make(config, place.environment, "");
  REQUIRE_FALSE(folders.has_value());
  CHECK(folders.error().reason.starts_with("--log-dir: cannot create directory \""));
}

TEST_CASE("an attempt of the same number begins with empty folders") {
  const Place place;
  Config config;
  config.logs.root = place.root;
  auto folders = io::LogDir::make(config, place.environment, "");
  REQUIRE(folders.has_value());
  const auto worker = folders->run_folder() + "/attempt_0/0";
  CHECK(folders->prepare({spec_in(worker)}));
  std::ofstream(worker + "/error.json") << "old";
  CHECK(folders->prepare({spec_in(worker)}));
  CHECK(fs::is_empty(worker));
}

TEST_CASE("the logs of an attempt are kept when another master begins to count again") {
  const Place place;
  Config config;
  config.logs.root = place.root;
  auto folders = io::LogDir::make(config, place.environment, "");
  REQUIRE(folders.has_value());
  const auto attempt = folders->run_folder() + "/attempt_0";
  for (const char* const words : {"first", "second", "third"}) {
    REQUIRE(folders->prepare({spec_in(attempt + "/0"), spec_in(attempt + "/1")}));
    std::ofstream(attempt + "/1/stdout.log") << words;
  }
  const auto said = [&](const std::string& folder) {
    std::string words;
    std::ifstream(folder + "/1/stdout.log") >> words;
    return words;
  };
  CHECK(said(attempt + "_before_1") == "first");
  CHECK(said(attempt + "_before_2") == "second");
  CHECK(said(attempt) == "third");
}

TEST_CASE("the last lines of a file are read from its end only") {
  const Place place;
  const auto path = (place.root / "stderr.log").string();
  {
    std::ofstream file(path);
    for (int i = 0; i < 100000; ++i) file << "line " << i << "\n";
  }
  const auto lines = io::read_last_lines(path);
  CHECK(lines.size() == bounds::last_lines_max);
  CHECK(lines.front() == "line 99800");
  CHECK(lines.back() == "line 99999");
  CHECK(io::read_last_lines("/nowhere").empty());
}

TEST_CASE("a small file is read whole, a large or missing one is refused with a reason") {
  const Place place;
  const auto path = (place.root / "error.json").string();
  std::ofstream(path) << "{}";
  CHECK(io::read_small_file(path) == "{}");
  CHECK(io::read_small_file("/nowhere").error().reason ==
        "cannot read \"/nowhere\": No such file or directory");
  const auto large = (place.root / "large").string();
  std::ofstream(large) << std::string(bounds::error_file_bytes_max + 1, ' ');
  CHECK(io::read_small_file(large).error().reason ==
        "cannot read \"" + large + "\": it is larger than 1048576 bytes");
  // One that does not tell its size; a bare root may not have it.
  if (::access("/dev/zero", R_OK) == 0) {
    CHECK(io::read_small_file("/dev/zero").error().reason ==
          "cannot read \"/dev/zero\": it is larger than 1048576 bytes");
  }
}

TEST_CASE("a file is replaced whole, or stays as it was with a reason why") {
  const Place place;
  const auto path = (place.root / "error.json").string();
  CHECK(io::write_whole_file(path, "one").has_value());
  CHECK(io::write_whole_file(path, "two").has_value());
  CHECK(io::read_small_file(path) == "two");
  CHECK(place.entries() == 1);
  const auto nowhere = (place.root / "none" / "x").string();
  CHECK(io::write_whole_file(nowhere, "x").error().reason ==
        "cannot write \"" + nowhere + "\": No such file or directory");
}

TEST_CASE("of a thousand restarts only the last attempts' folders stay where that was asked for") {
  const Place place;
  Config config;
  config.logs.root = place.root;
  config.logs.attempts_kept = 3;
  auto folders = io::LogDir::make(config, place.environment, "");
  REQUIRE(folders.has_value());
  for (int i = 0; i < 10; ++i) {
    const auto attempt = folders->run_folder() + "/attempt_" + std::to_string(i);
    REQUIRE(folders->prepare({spec_in(attempt + "/0")}));
    std::ofstream(attempt + "/0/stdout.log") << i;
  }
  // Of a new master's attempt with an old name the older one goes first.
  REQUIRE(folders->prepare({spec_in(folders->run_folder() + "/attempt_9/0")}));
  CHECK(fs::exists(folders->run_folder() + "/attempt_8"));
  CHECK(fs::exists(folders->run_folder() + "/attempt_9_before_1"));
  CHECK(fs::is_empty(folders->run_folder() + "/attempt_9/0"));
  CHECK(std::distance(fs::directory_iterator(folders->run_folder()), {}) == 3);
}

}  // namespace log_dir_test

// SPDX-License-Identifier: BSD-3-Clause
#include "worker/examples/command_line.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace command_line_test {

namespace {

struct Fixture {
  int count = 3;
  std::string file = "my_file";
  bool loud = false;
  cpprun::examples::CommandLine app{"a program."};

  Fixture() {
    app.add("--batch-size", count, "size", {{1, 10}});
    app.add("--data", file, "file");
    app.add_flag("--loud", loud, "print more");
  }

  std::optional<int> parse_or_exit(std::vector<const char*> words) {
    words.insert(words.begin(), "program");
    return app.parse_or_exit(static_cast<int>(words.size()), words.data());
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "options are read in both spellings, with = or a space") {
  CHECK_FALSE(parse_or_exit({"--batch_size=7", "--data", "your_file=1", "--loud"}));
  CHECK(count == 7);
  CHECK(file == "your_file=1");
  CHECK(loud);
}

TEST_CASE_FIXTURE(Fixture, "the last value of a repeated option is used") {
  CHECK_FALSE(parse_or_exit({"--batch-size=5", "--loud", "--batch-size=7"}));
  CHECK(count == 7);
}

TEST_CASE_FIXTURE(Fixture, "without arguments the defaults are used") {
  CHECK_FALSE(parse_or_exit({}));
  CHECK(count == 3);
  CHECK(file == "my_file");
}

TEST_CASE_FIXTURE(Fixture, "a program exits with 0 for --help and 2 for a usage error") {
  CHECK(parse_or_exit({"--help"}) == 0);
  CHECK(parse_or_exit({"--batch-size=0"}) == 2);
  CHECK(parse_or_exit({"--nonsense"}) == 2);
  CHECK(parse_or_exit({"stray"}) == 2);
}

TEST_CASE_FIXTURE(Fixture, "the local rank that a launcher passes to every program is accepted") {
  CHECK_FALSE(parse_or_exit({"--local-rank=3"}));
  CHECK_FALSE(parse_or_exit({"--local_rank", "0"}));
  CHECK(parse_or_exit({"--local-rank=x"}) == 2);
}

TEST_CASE_FIXTURE(Fixture, "a program may have a local rank of its own") {
  int own = 0;
  app.add("--local-rank", own, "rank");
  CHECK_FALSE(parse_or_exit({"--local-rank=3"}));
  CHECK(own == 3);
}

TEST_CASE("workers are listed once for all nodes, or for each") {
  using cpprun::examples::worker_counts;
  using Counts = std::vector<int>;
  CHECK(worker_counts("2", 1) == Counts{2});
  CHECK(worker_counts("2", 3) == Counts{2, 2, 2});
  CHECK(worker_counts("2,1", 2) == Counts{2, 1});
  for (const std::string wrong : {"", "0", "2,", "2,x", "-1", "2,1,1", "two"}) {
    INFO(wrong);
    CHECK(worker_counts(wrong, 2).empty());
  }
}

TEST_CASE_FIXTURE(Fixture, "a rank that is given by hand becomes the launcher's variables") {
  std::string method = "env://";
  app.add_meeting(method);
  CHECK(parse_or_exit({"--rank=1"}) == 2);
  CHECK(parse_or_exit({"--rank=2", "--world_size=2"}) == 2);
  CHECK_FALSE(
      parse_or_exit({"--rank=1", "--world_size=2", "--init_method=tcp://a:1", "--gpu_devices=3"}));
  CHECK(method == "tcp://a:1");
  CHECK(std::string(std::getenv("RANK")) == "1");
  CHECK(std::string(std::getenv("WORLD_SIZE")) == "2");
  CHECK(std::string(std::getenv("MASTER_ADDR")) == "a");
  CHECK(std::string(std::getenv("CUDA_VISIBLE_DEVICES")) == "3");
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                           "CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT"}) {
    ::unsetenv(name);
  }
}

}  // namespace command_line_test

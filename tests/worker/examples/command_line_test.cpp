// SPDX-License-Identifier: BSD-3-Clause
#include "worker/examples/command_line.h"

#include <doctest/doctest.h>

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

}  // namespace command_line_test

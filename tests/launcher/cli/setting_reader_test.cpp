// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/setting_reader.h"

#include <doctest/doctest.h>

using namespace cpprun;

namespace {

struct Read {
  Settings settings;
  Environment environment;
  std::vector<std::string> mistakes;
  std::vector<std::string> notes;
  SettingReader reader{settings, environment, mistakes, notes};
};

}  // namespace

TEST_CASE("a number outside its bounds is a mistake under the name it was given by") {
  Read read;
  read.settings.settle("node-rank", {"7", "PET_NODE_RANK"});
  CHECK(read.reader.number("node-rank", 0, 7) == 7);
  CHECK_FALSE(read.reader.number("node-rank", 0, 6));
  CHECK_FALSE(read.reader.number("node-rank", 8, any_count_max));
  CHECK(read.mistakes ==
        std::vector<std::string>{"PET_NODE_RANK=7 is not a whole number from 0 to 6",
                                 "PET_NODE_RANK=7 is not a whole number from 8"});
}

TEST_CASE("what was not given is nothing, and is called by its flag") {
  Read read;
  CHECK_FALSE(read.reader.number("node-rank", 0, 1));
  CHECK(read.mistakes.empty());
  CHECK(read.reader.source("node-rank") == "--node-rank");
}

TEST_CASE("a name that is too long to travel is a mistake with its length") {
  Read read;
  read.settings.settle("role", {"trainer", "--role"});
  CHECK_FALSE(read.reader.name("rdzv-id", 1));
  CHECK(read.reader.name("role", 7) == "trainer");
  CHECK_FALSE(read.reader.name("role", 6));
  CHECK(read.mistakes == std::vector<std::string>{"--role has 7 bytes; a name of at most 6 travels "
                                                  "between nodes: give a shorter one"});
}

TEST_CASE("a name that other nodes would read differently is a mistake") {
  Read read;
  read.settings.settle("role", {"trainer\u202e", "--role"});
  CHECK_FALSE(read.reader.name("role", 20));
  CHECK(read.mistakes ==
        std::vector<std::string>{
            "--role=trainer?: where it says \"?\" there is nothing that can be read: a control or "
            "format character, or half a character; give a name of letters"});
}

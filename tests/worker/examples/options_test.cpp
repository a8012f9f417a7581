// SPDX-License-Identifier: BSD-3-Clause
#include "worker/examples/options.h"

#include <doctest/doctest.h>

using namespace cpprun::examples;

namespace {

struct Fixture {
  int count = 3;
  double rate = 0.5;
  std::string file = "a.bin";
  std::string kind = "fp32";
  bool loud = false;
  Options options{"a program."};

  Fixture() {
    options.number("batch-size", count, 1, 10, "how many");
    options.real("lr", rate, 0, "how fast");
    options.text("data", file, "which file");
    options.choice("dtype", kind, {"fp32", "bf16"}, "which numbers");
    options.flag("loud", loud, "say more");
  }

  std::string parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    const auto command = options.parse(static_cast<int>(arguments.size()), arguments.data());
    if (!command) return command.error().reason;
    return *command == CommandLine::run ? "run" : "help";
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "without arguments the defaults stay") {
  CHECK(parse({}) == "run");
  CHECK(count == 3);
  CHECK(file == "a.bin");
}

TEST_CASE_FIXTURE(Fixture, "options are read in both spellings, with = or a space") {
  CHECK(parse({"--batch_size=7", "--lr", "0.25", "--dtype=bf16", "--data=my_file", "--loud"}) ==
        "run");
  CHECK(count == 7);
  CHECK(rate == 0.25);
  CHECK(kind == "bf16");
  CHECK(file == "my_file");
  CHECK(loud);
}

TEST_CASE_FIXTURE(Fixture, "all mistakes are named together") {
  CHECK(parse({"--batch-size=0", "--dtype=int8", "--lr=-1", "--nonsense", "stray"}) ==
        "--batch-size=0 must be a whole number from 1 to 10; --dtype=int8 must be one of fp32, "
        "bf16; --lr=-1 must be a number, at least 0; --nonsense is no option of this program; "
        "\"stray\" is no option (--help lists the options)");
}

TEST_CASE_FIXTURE(Fixture, "the local rank that a launcher hands to every program is taken") {
  CHECK(parse({"--local-rank=3"}) == "run");
  CHECK(parse({"--local_rank", "0"}) == "run");
  CHECK(parse({"--local-rank=x"}).starts_with("--local-rank=x must be a whole number"));
}

TEST_CASE_FIXTURE(Fixture, "an option without its value is named") {
  CHECK(parse({"--lr"}) == "--lr needs a value (--help lists the options)");
}

TEST_CASE_FIXTURE(Fixture, "help shows every option with its default") {
  CHECK(parse({"--help"}) == "help");
  const std::string help = options.help();
  CHECK(help.find("--batch-size VALUE") != std::string::npos);
  CHECK(help.find("how many [3]") != std::string::npos);
  CHECK(help.find("which numbers: fp32, bf16 [fp32]") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "arguments have their order, and stand anywhere between options") {
  std::string from, to;
  options.argument("FROM", from, "where it is");
  options.argument("TO", to, "where it goes");
  CHECK(parse({"a", "--loud", "b"}) == "run");
  CHECK(from == "a");
  CHECK(to == "b");
  CHECK(parse({"a"}) == "TO is missing: where it goes (--help lists the options)");
  CHECK(parse({"a", "b", "c"}) == "\"c\" is no option (--help lists the options)");
  CHECK(options.help().find("  FROM                     where it is\n") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "values that do not go together are refused") {
  options.require([this] { return count < 5 || loud ? "" : "a batch of five needs --loud"; });
  CHECK(parse({"--batch-size=5"}) == "a batch of five needs --loud (--help lists the options)");
  CHECK(parse({"--batch-size=5", "--loud"}) == "run");
}

TEST_CASE_FIXTURE(Fixture, "a program goes on, or ends with 0 for its help and 2 for a mistake") {
  const auto settle = [this](const char* word) {
    const char* const arguments[] = {"program", word, nullptr};
    return options.settle(2, arguments);
  };
  CHECK(settle("--loud") == std::nullopt);
  CHECK(settle("--help") == 0);
  CHECK(settle("--quiet") == 2);
}

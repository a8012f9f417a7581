// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/command_line.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "rendezvous/command_pages.h"

namespace command_line_test {

using namespace cpprun;

namespace {

// A program with a command, a flag of each kind and a positional.
struct Program {
  ProgramFacts facts{.name = "tool", .about = "Does something."};
  std::string address;
  std::string job;
  std::string reason;
  std::uint64_t port = 7;
  std::uint64_t bytes = 0;
  bool follows = false;
  bool at_once = true;

  Program() {
    add_page_flags(facts.flags);
    add_flag(facts.flags, "--address", "HOST", "Where", text_into(address));
    add_flag(facts.flags, "--port", "N", "Port", number_into(port, any_port));
    add_flag(facts.flags, "--size", "SIZE", "Size", size_into(bytes));
    auto& stop = facts.commands.emplace_back();
    stop.name = "stop";
    stop.subjects.push_back({.name = "JOB", .help = "The job", .take = text_into(job)});
    add_flag(stop.flags, "--reason", "TEXT", "Why", text_into(reason));
    add_flag(stop.flags, "-f,--follow", "", "Go on", switch_into(follows));
    add_flag(stop.flags, "--now", "", "At once", switch_into(at_once)).excludes = {"reason"};
    add_flag(stop.flags, "--later", "", "Not now", switch_into(at_once, false)).needs = {"reason"};
  }
  std::optional<CommandLineEnd> read(std::initializer_list<const char*> words) {
    std::vector<const char*> argv{"tool"};
    argv.insert(argv.end(), words);
    TypedWords read;
    return read_words_into(facts, static_cast<int>(argv.size()), argv.data(), "1.2", read);
  }
};

std::string error_of(std::initializer_list<const char*> words) {
  Program program;
  const auto end = program.read(words);
  REQUIRE(end);
  CHECK(end->exit_code == usage_error);
  return end->text;
}

}  // namespace

TEST_CASE("arguments in order are parsed") {
  Program program;
  CHECK_FALSE(program.read({"--address=h", "stop", "a", "--reason", "b=", "--port", "007"}));
  CHECK(program.address == "h");
  CHECK(program.job == "a");
  CHECK(program.reason == "b=");
  CHECK(program.port == 7);
}

TEST_CASE("short flags are combined, a switch may be given a value, and -- ends the flags") {
  Program program;
  CHECK_FALSE(program.read({"stop", "-f", "--later=no", "--reason=b", "--", "--reason"}));
  CHECK(program.follows);
  CHECK(program.at_once);
  CHECK(program.job == "--reason");
  CHECK(error_of({"stop", "--follow=maybe"})
            .starts_with("tool: error: --follow=maybe is neither true nor false\n"));
  CHECK(error_of({"stop", "-fx"}).starts_with("tool: error: unknown flag -x\n"));
}

TEST_CASE("flags may need or exclude others, and have one value") {
  CHECK(error_of({"stop", "--later"}).starts_with("tool: error: --later requires --reason\n"));
  CHECK(error_of({"stop", "--now", "--reason=a"}) ==
        "tool: error: --now and --reason exclude each other\n  hint: use only one\n");
  CHECK(error_of({"stop", "--reason=a", "--reason=b"})
            .starts_with("tool: error: --reason is given twice\n"));
  CHECK(error_of({"stop", "--reason"})
            .starts_with("tool: error: --reason needs a value: --reason=TEXT\n"));
}

TEST_CASE("an empty value is an error for every option and positional") {
  const std::string hint = "\n  hint: check that the shell variable is set, or leave it out\n";
  CHECK(error_of({"stop", ""}) == "tool: error: argument 2: empty value" + hint);
  CHECK(error_of({"stop", "-f", ""}) == "tool: error: argument 3: empty value" + hint);
  CHECK(error_of({"--address", "", "stop"}) == "tool: error: --address: empty value" + hint);
  CHECK(error_of({"stop", "--reason", ""}) == "tool: error: --reason: empty value" + hint);
  // CLI11 would take the next argument for the value.
  CHECK(error_of({"--address=", "stop"}) == "tool: error: --address: empty value" + hint);
  CHECK(error_of({"stop", "--port="}) == "tool: error: --port: empty value" + hint);
  CHECK(error_of({"--size", ""}) == "tool: error: --size: empty value" + hint);
}

TEST_CASE("a flag is not taken for the value of another flag") {
  CHECK(error_of({"stop", "--reason", "--address", "h"}) ==
        "tool: error: --reason: no value before --address\n"
        "  hint: give --reason its value, as in --reason=VALUE\n");
}

TEST_CASE("an unknown flag or command gets one suggestion") {
  CHECK(error_of({"stop", "--raeson", "x"}) ==
        "tool: error: unknown flag --raeson\n  hint: did you mean --reason?\n");
  CHECK(error_of({"--adress=h", "stop"}) ==
        "tool: error: unknown flag --adress\n  hint: did you mean --address?\n");
  CHECK(error_of({"stpo"}) ==
        "tool: error: unexpected argument \"stpo\"\n  hint: did you mean stop?\n");
  CHECK(error_of({"--frobnicate"}) ==
        "tool: error: unknown flag --frobnicate\n  hint: tool --help lists all flags\n");
  CHECK(error_of({"stop", "a", "b"}).starts_with("tool: error: unexpected argument \"b\"\n"));
}

TEST_CASE("numbers are decimal digits within a range, which the error names in short form") {
  for (const char* wrong : {"-1", "+1", "0x10", "1e3", "1.0", " 1", "65536", "18446744073709551616",
                            "port", "99999999999999999999999999999999"}) {
    CAPTURE(wrong);
    const auto text = error_of({"--port", wrong, "stop"});
    CHECK(text.starts_with(std::string("tool: error: --port: \"") + wrong +
                           "\" is not a whole number from 0 to 65535\n"));
  }
  Program octal;
  CHECK_FALSE(octal.read({"--port", "010", "stop"}));
  CHECK(octal.port == 10);
}

TEST_CASE("sizes have units and do not overflow") {
  Program program;
  CHECK_FALSE(program.read({"stop", "--size", "64MiB"}));
  CHECK(program.bytes == 64U << 20);
  for (const char* wrong : {"-1", "64X", "M", "0x10", "99999999999999P", "1.5G"}) {
    CAPTURE(wrong);
    CHECK(error_of({"--size", wrong})
              .find("is not a number of bytes, such as 500000, 64M or 4GiB\n") !=
          std::string::npos);
  }
}

TEST_CASE("a request for a text such as --help exits with 0") {
  Program program;
  const auto end = program.read({"--help"});
  REQUIRE(end);
  CHECK(end->exit_code == 0);
  CHECK(end->text.find("--address") != std::string::npos);
}

}  // namespace command_line_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/config_file.h"

#include <doctest/doctest.h>

#include <chrono>

#include "tests/launcher/cli/cli_probe.h"

namespace config_file_test {

using namespace cpprun;
using namespace cpprun::probe;
using namespace std::chrono_literals;

namespace {

Config with_file(const std::string& text, Words words = {"--config=job.toml", "x"},
                 Environment environment = {}) {
  return good(std::move(words), std::move(environment), {.text = text});
}

Words wrong_in_file(const std::string& text, Environment environment = {}) {
  return diagnostics({"--config", "job.toml", "x"}, std::move(environment), {.text = text});
}

}  // namespace

TEST_CASE("a file sets flags by their names, in TOML's spelling") {
  const auto config = with_file(
      "# the cluster's usual\n"
      "nnodes = \"2:4\"          # as many as there are\n"
      "nproc_per_node = 8\n"
      "rdzv-backend = 'c10d'\n"
      "rdzv-endpoint = \"[fd00::1]:29400\"\n"
      "no-python = true\n"
      "run-path = false\n"
      "restart-backoff = 0.5\n"
      "max-restarts = 3\n"
      "no-restart-codes = [2,\n"
      "  \"SIGSEGV\",  # a bug, not a bad day\n"
      "]\n"
      "log-line-prefix-template = \"#${rank} [${hostname}] \"\n"
      "role = \"it's mine\"\n");
  CHECK(config.nodes_min == 2);
  CHECK(config.nodes_max == 4);
  CHECK(config.local_world_size == 8);
  CHECK(config.endpoint == Endpoint{"fd00::1", 29400});
  CHECK(config.program.kind == ProgramKind::no_python);
  CHECK(config.restarts.backoff == 500ms);
  CHECK(config.restarts.final_codes == std::vector<int>{-11, 2});
  CHECK(config.logs.prefix_template == "#${rank} [${hostname}] ");
  CHECK(config.role == "it's mine");
}

TEST_CASE("a file may be an INI, with bare text, other line ends and a byte order mark") {
  const auto config = with_file(
      "\xef\xbb\xbf; for the night\r\n"
      "role=my trainer\r\n"
      "\r\n"
      "rdzv-conf = join_timeout=5, last_call_timeout=2\r\n"
      "local-addr = [::1]\r\n");
  CHECK(config.role == "my trainer");
  CHECK(config.join_timeout == 5s);
  CHECK(config.last_call == 2s);
  CHECK(config.local_addr == "::1");
}

TEST_CASE("the command line wins over the environment, and the environment over the file") {
  const std::string text = "max-restarts = 1\nrole = 'file'\nlog-level = 'error'\nno-python = true";
  const Environment environment = {{"PET_ROLE", "variable"},
                                   {"PET_MAX_RESTARTS", "2"},
                                   {"PET_NO_PYTHON", "0"},
                                   {"CPPRUN_LOG_LEVEL", "debug"}};
  const auto config = with_file(text, {"--config=job.toml", "--max-restarts=3", "x"}, environment);
  CHECK(config.restarts.max == 3);
  CHECK(config.role == "variable");
  CHECK(config.logs.level == LogLevel::debug);
  CHECK(config.program.kind == ProgramKind::automatic);
  CHECK(with_file(text).role == "file");
}

TEST_CASE("the environment may name the file, and the command line another") {
  const Environment named = {{"CPPRUN_CONFIG", "job.toml"}};
  CHECK(with_file("role = 'a'", {"x"}, named).role == "a");
  CHECK(with_file("role = 'a'", {"--config=job.toml", "x"}, {{"CPPRUN_CONFIG", "gone"}}).role ==
        "a");
}

TEST_CASE("a file that cannot be read is an error under the flag that named it") {
  CHECK(diagnostics({"--config=gone.toml", "x"}) ==
        Words{"--config=gone.toml cannot be read: No such file or directory\n  hint: give the path "
              "of a text file"});
  CHECK(diagnostics({"x"}, {{"CPPRUN_CONFIG", "gone.toml"}}) ==
        Words{"CPPRUN_CONFIG=gone.toml cannot be read: No such file or directory\n  hint: give the "
              "path "
              "of a text file"});
  CHECK(diagnostics({"--config=", "x"}) ==
        Words{"--config: empty value; check that the variable used for the value is set, or remove "
              "the flag"});
}

TEST_CASE("all errors in a file are reported with their lines, beside the other errors") {
  const auto reported =
      diagnostics({"--config=job.toml", "--frobnicate", "--node-rank=x", "gone.py"}, {},
                  {.text = "nnodes = two\n"
                           "nprok = 2\n"
                           "nproc = 2\n"
                           "\n"
                           "standalone = maybe\n"
                           "max-restarts = 1\n"
                           "max_restarts = 2\n"
                           "config = 'other.toml'\n"
                           "[workers]\n"
                           "master-port 29500\n"
                           "role = \"half\n"});
  CHECK(
      reported ==
      Words{"job.toml:2: unknown key \"nprok\"\n  hint: use the name of a flag; cpprun --help all "
            "lists "
            "them",
            "job.toml:3: unknown key \"nproc\"\n  hint: write nproc-per-node",
            "job.toml:7: max-restarts is set twice, first on line 6\n  hint: remove one of them",
            "job.toml:8: config is allowed only on the command line, not in a file",
            "job.toml:9: sections are not supported\n  hint: write each flag as name = value",
            "job.toml:10: \"master-port 29500\" does not have the form name = value",
            "job.toml:11: role: the value has no closing \"",
            "unknown flag --frobnicate\n  hint: cpprun --help all lists the flags",
            "job.toml:1: nnodes=two is neither a number of nodes, such as 2, nor a range, such as "
            "2:4",
            "--node-rank=x is not a whole number of at least 0",
            "job.toml:5: standalone=maybe is neither true nor false",
            "cannot run \"gone.py\": no such file in the working directory"});
}

TEST_CASE("an invalid value is reported for the source that set it") {
  CHECK(wrong_in_file("max-restarts = many", {{"PET_MAX_RESTARTS", "more"}}) ==
        Words{"PET_MAX_RESTARTS=more is not a whole number of at least 0"});
  CHECK(wrong_in_file("nnodes = 2\nnode-rank = 2") ==
        Words{"job.toml:2: node-rank=2 is too large: the job has 2 nodes, ranks 0 to 1"});
}

TEST_CASE("a file of the wrong kind is reported once, not line by line") {
  CHECK(wrong_in_file(std::string("\x7f\x45LF\0\0\1", 7)) ==
        Words{"job.toml is not a text file; --config expects lines such as nnodes = 2"});
  std::string script;
  for (int line = 0; line < 20; ++line) script += "import os\n";
  const auto reported = wrong_in_file(script);
  CHECK(reported.size() == 9);
  CHECK(reported.back() ==
        "job.toml: 12 more errors like these; check that this is the right file");
}

TEST_CASE("fragments of a file cause errors at most") {
  for (const char* text : {"=",           "[",         "]",          "[[",
                           "a",           "''",        "' = 1",      "\"\" = 2",
                           "role",        "role=",     "role = [",   "role = ]",
                           "role = [[]]", "role = \"", "role = '''", "role = \"\"\"x\"\"\"",
                           "=role",       "role==",    "role = [\"", "#",
                           ";",           "."}) {
    CAPTURE(text);
    const auto outcome = read({"--config=job.toml", "x"}, {}, {.text = text});
    CHECK_FALSE(std::holds_alternative<CliText>(outcome));
  }
}

}  // namespace config_file_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/help.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

namespace help_test {

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("help has sections, and each flag once") {
  const auto help = std::get<CliText>(read({"--help", "all"})).text;
  CHECK(help.find("Rendezvous:") < help.find("--nnodes="));
  CHECK(help.find("--standalone  ") < help.find("Workers:"));
  CHECK(help.find("Workers:") < help.find("--nproc-per-node="));
  CHECK(help.find("Failures and restarts:") < help.find("--max-restarts="));
  CHECK(help.find("Logs:") < help.find("--log-level="));
  CHECK(help.find("--log-level=") < help.find("--monitor-interval="));
  CHECK(help.find("General:") < help.find("-h, --help"));
  CHECK(help.find("  -r, --redirects=STREAMS               Write to files") != std::string::npos);
}

TEST_CASE("the short help fits on two screens and names the rest") {
  for (const auto& words : {Words{"--help"}, Words{"--help", "train.py"}}) {
    const auto help = std::get<CliText>(read(words)).text;
    CHECK(std::ranges::count(help, '\n') <= 56);
    CHECK(help.find("--nproc-per-node=") != std::string::npos);
    CHECK(help.find("--restart-backoff=") == std::string::npos);
    CHECK(help.find("cpprun --help all (") != std::string::npos);
  }
}

TEST_CASE("--help explains a group of flags, or one flag") {
  const auto group = std::get<CliText>(read({"--help", "failures"})).text;
  CHECK(group.starts_with("Failures and restarts:\n"));
  CHECK(group.find("--restart-backoff=") != std::string::npos);
  CHECK(group.find("--nnodes=") == std::string::npos);
  for (const char* name : {"log-level", "log_level"}) {
    const auto flag = std::get<CliText>(read({"--help", name})).text;
    CHECK(flag.starts_with("  --log-level=LEVEL"));
    CHECK(flag.find("\nValues: error, warning, info, debug\n") != std::string::npos);
    CHECK(flag.find("\nEnvironment: PET_LOG_LEVEL, CPPRUN_LOG_LEVEL\n") != std::string::npos);
  }
}

TEST_CASE("the manual page has the sections of the help, and the variables that set a default") {
  const auto page = std::get<CliText>(read({"--print-man"})).text;
  CHECK(page.starts_with(".TH CPPRUN 1 \"\" \"cpprun 1.2.3 (commit abc)\" \"User Commands\"\n"));
  CHECK(page.find(".SS \"Failures and restarts\"\n.TP\n\\fB\\-\\-max\\-restarts\\fR "
                  "\\fIN[,CAUSE=N]\\fR\n") != std::string::npos);
  CHECK(page.find("Environment: PET_LOG_LEVEL, CPPRUN_LOG_LEVEL.") != std::string::npos);
  CHECK(page.find("\\fB\\-\\-version\\fR\nShow the version.\n") != std::string::npos);
}

}  // namespace help_test

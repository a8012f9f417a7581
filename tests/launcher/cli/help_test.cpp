// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/help.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

namespace help_test {

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("help comes in parts, each flag once") {
  const auto help = std::get<CliText>(read({"--help"})).text;
  CHECK(help.find("Rendezvous:") < help.find("--nnodes="));
  CHECK(help.find("--standalone  ") < help.find("Workers:"));
  CHECK(help.find("Workers:") < help.find("--nproc-per-node="));
  CHECK(help.find("Failures and restarts:") < help.find("--max-restarts="));
  CHECK(help.find("Logs:") < help.find("--log-level="));
  CHECK(help.find("--log-level=") < help.find("--monitor-interval="));
  CHECK(help.find("General:") < help.find("-h, --help"));
  CHECK(help.find("  -r, --redirects=STREAMS               Streams to files") != std::string::npos);
}

TEST_CASE("the manual page has the parts of the help, and which variables give a default") {
  const auto page = std::get<CliText>(read({"--print-man"})).text;
  CHECK(page.starts_with(".TH CPPRUN 1 \"\" \"cpprun 1.2.3 (commit abc)\" \"User Commands\"\n"));
  CHECK(page.find(".SS \"Failures and restarts\"\n.TP\n.B \\-\\-max\\-restarts=N[,CAUSE=N]\n") !=
        std::string::npos);
  CHECK(page.find("Environment: PET_LOG_LEVEL, CPPRUN_LOG_LEVEL.") != std::string::npos);
  CHECK(page.find(".B \\-\\-version\nShow the version.\n") != std::string::npos);
}

}  // namespace help_test

#include "launcher/log_settings.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli_probe.h"

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("logs: a folder, none at all, a filter, a template") {
  const auto config = good({"--log-dir=/logs", "-t", "1:3", "--local-ranks-filter=0,2", "x"},
                           {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}: "}});
  CHECK(config.logs.root == "/logs");
  CHECK(config.logs.tee.of(1) == StreamChoice{true, true});
  CHECK(config.logs.console_ranks == std::vector<int>{0, 2});
  CHECK(config.logs.prefix_template == "${rank}: ");
  CHECK(good({"--log-dir=/dev/null", "x"}).logs.disabled);
  CHECK(mistakes({"--local-ranks-filter=a", "x"}).size() == 1);
}

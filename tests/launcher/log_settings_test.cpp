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

TEST_CASE("duplicate filters are words between commas, two commas being one") {
  const auto logs = good({"--tee=3", "--duplicate-stdout-filters=apple,a,,b,",
                          "--duplicate_stderr_filters=", "x"})
                        .logs;
  CHECK(logs.duplicate_out == Words{"apple", "a,b"});
  CHECK(logs.duplicate_err.empty());
}

TEST_CASE("duplicate filters say when they have nothing to look at, or nowhere to write") {
  CHECK(good({"-t", "0:1", "--duplicate-stderr-filters=a", "x"}).notes ==
        Words{"--duplicate-stderr-filters has no effect: it looks at lines that --tee brings to "
              "the console"});
  CHECK(mistakes({"-t", "1", "--log-dir=/dev/null", "--duplicate-stdout-filters=a", "x"}) ==
        Words{"--duplicate-stdout-filters needs a folder for its file, and --log-dir=/dev/null "
              "says that there is none"});
}

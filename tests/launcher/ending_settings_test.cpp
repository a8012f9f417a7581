#include "launcher/ending_settings.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "tests/launcher/cli_probe.h"

using namespace cpprun;
using namespace cpprun::probe;
using namespace std::chrono_literals;

TEST_CASE("the grace comes from the flag, else from torch's variable") {
  const Environment torch = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}};
  CHECK(good({"x"}, torch).grace == 7s);
  CHECK(good({"--shutdown-timeout=0", "x"}, torch).grace == 0s);
  CHECK(mistakes({"--shutdown-timeout=-1", "x"}).size() == 1);
  CHECK(mistakes({"x"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon"}}).size() == 1);
}

TEST_CASE("signals are read by name; one that cannot be handled is noted, as in torchrun") {
  const auto config = good({"--signals-to-handle=SIGUSR1,SIGTERM,SIGFOO,SIGTERM", "x"});
  CHECK(config.signals == std::vector<int>{SIGUSR1, SIGTERM});
  CHECK(config.signals_text == "SIGUSR1,SIGTERM,SIGFOO,SIGTERM");
  CHECK(config.notes == Words{"SIGFOO cannot be handled and is left out of --signals-to-handle"});
}

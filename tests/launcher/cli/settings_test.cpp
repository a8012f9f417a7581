// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("what is not there is refused with a sentence, its harmless values are not") {
  CHECK(mistakes({"--rdzv-backend=zookeeper", "x"}) ==
        Words{"--rdzv-backend=zookeeper is no rendezvous; static, c10d and etcd are"});
  CHECK(mistakes({"--logs-specs=mine", "--event-log-handler=mine", "x"}).size() == 2);
  good({"--logs-specs=default", "--event-log-handler=null", "--start-method=spawn",
        "--monitor-interval=0.1", "--duplicate-stdout-filters=", "x"});
}

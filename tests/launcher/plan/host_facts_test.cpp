// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/host_facts.h"

#include <doctest/doctest.h>

namespace host_facts_test {

using cpprun::size_text;

TEST_CASE("sizes are printed in the unit that makes them short") {
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(64ULL << 20) == "64.0 MiB");
  CHECK(size_text(1536ULL << 30) == "1.5 TiB");
  CHECK(size_text(~0ULL) == "16.0 EiB");
}

}  // namespace host_facts_test

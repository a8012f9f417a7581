// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/endpoint.h"

#include <doctest/doctest.h>

namespace member_name_test {

using namespace cpprun;

TEST_CASE("two runs of one cpprund are distinct but have one display name") {
  CHECK(member_name("a", "12ab") == "a#12ab");
  CHECK(member_name("a", "12ab") != member_name("a", "12ac"));
  CHECK(called(member_name("a", "12ab")) == "a");
  CHECK(called(member_name("a", "12ac")) == "a");
}

TEST_CASE("a name without a run number is displayed as it is") {
  CHECK(called("a") == "a");
  CHECK(called("") == "");
}

}  // namespace member_name_test

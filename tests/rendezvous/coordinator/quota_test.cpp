// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/admission_control.h"

#include <doctest/doctest.h>

namespace quota_test {

using namespace cpprun;

TEST_CASE("a source cannot exceed its share, and what it gives back is free again") {
  SourceLimit limit(2);
  CHECK(limit.take("10.0.0.1"));
  CHECK(limit.take("10.0.0.1"));
  CHECK_FALSE(limit.take("10.0.0.1"));
  CHECK(limit.take("10.0.0.2"));
  limit.give_back("10.0.0.1");
  CHECK(limit.taken("10.0.0.1") == 1);
  CHECK(limit.take("10.0.0.1"));
  limit.give_back("10.0.0.9");  // a source that took nothing
  CHECK(limit.taken("10.0.0.9") == 0);
}

TEST_CASE("an IPv6 network is one source, and every other address is its own") {
  CHECK(source_of("2001:db8:1:2::1") == source_of("2001:db8:1:2:ffff::9"));
  CHECK(source_of("2001:db8:1:2::1") == "2001:db8:1:2::/64");
  CHECK(source_of("2001:db8:1:3::1") != source_of("2001:db8:1:2::1"));
  CHECK(source_of("10.0.0.1") == "10.0.0.1");
  CHECK(source_of("::ffff:10.0.0.1") == "10.0.0.1");
  CHECK(source_of("::1") == "::1");
}

}  // namespace quota_test

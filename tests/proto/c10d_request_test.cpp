// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/request.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace c10d_request_test {

using namespace cpprun::c10d;

TEST_CASE("requests and replies with lists are compared by content") {
  const std::vector<Bytes> some{"a", "b"};
  const std::vector<std::string> elsewhere{"a", "b"};
  const std::vector<Bytes> same(elsewhere.begin(), elsewhere.end());
  const std::vector<Bytes> other{"a", "c"};
  CHECK(Wait{some} == Wait{same});
  CHECK_FALSE(Wait{some} == Wait{other});
  CHECK(Check{some} == Check{same});
  CHECK(MultiGet{some} == MultiGet{same});
  CHECK(Values{some} == Values{same});
  CHECK_FALSE(Keys{some} == Keys{other});
  CHECK_FALSE(Request{Wait{some}} == Request{Check{same}});
}

}  // namespace c10d_request_test

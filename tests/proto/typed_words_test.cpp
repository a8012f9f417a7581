// SPDX-License-Identifier: BSD-3-Clause
#include "proto/text.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace typed_words_test {

using namespace cpprun;

TEST_CASE("a number of bytes has a unit that is a power of 1024, and fits") {
  CHECK(byte_size("0") == 0U);
  CHECK(byte_size("500000") == 500000U);
  CHECK(byte_size(" 64M ") == 64ULL << 20);
  CHECK(byte_size("64mb") == 64ULL << 20);
  CHECK(byte_size("4 GiB") == 4ULL << 30);
  CHECK(byte_size("12b") == 12U);
  CHECK(byte_size("15E") == 15ULL << 60);
  for (const char* wrong : {"", "M", "-1", "+1", "64X", "64MX", "16E", "18446744073709551616",
                            "1.5G", "0x10", "99999999999T"}) {
    CAPTURE(wrong);
    CHECK_FALSE(byte_size(wrong));
  }
}

TEST_CASE("the nearest name is the name with the fewest edits, up to a limit") {
  const std::vector<std::string> names{"--nnodes", "--nproc-per-node", "--node-rank", "--tee"};
  const auto near = [&](std::string_view typed) {
    const auto* found = nearest(typed, names);
    return found == nullptr ? std::string("none") : *found;
  };
  CHECK(near("--nproc-per-nod") == "--nproc-per-node");
  CHECK(near("--nproc_per_nodes") == "--nproc-per-node");
  CHECK(near("--NNODES") == "--nnodes");
  CHECK(near("--nndoes") == "--nnodes");
  CHECK(near("--te") == "--tee");
  CHECK(near("--frobnicate") == "none");
  CHECK(near(std::string(1000, '-')) == "none");
  CHECK(nearest("x", {}) == nullptr);
}

}  // namespace typed_words_test

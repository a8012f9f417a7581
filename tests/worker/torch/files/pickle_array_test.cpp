// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pickle.h"

#include <doctest/doctest.h>

namespace pickle_array_test {

using namespace cpprun;
using namespace cpprun::pickle;
using namespace std::string_literals;

namespace {

// What Python 2 wrote for `numpy.array([[1, 2, 3], [4, 5, 6]], 'u1')`, up to the state.
const std::string beginning =
    "\x80\x02"s
    "cnumpy.core.multiarray\n_reconstruct\nq\x01"
    "cnumpy\nndarray\nq\x02K\x00\x85U\x01"
    "b\x87R";
const std::string type =
    "cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
    "(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"s;

std::string array_of(const std::string& shape, const std::string& by_columns = "\x89"s,
                     const std::string& content = "U\x06\1\2\3\4\5\6"s) {
  return beginning + "(K\x01" + shape + type + by_columns + content + "tb.";
}

std::string refusal(const std::string& bytes) {
  const auto read = read_pickle(bytes);
  return read ? "" : read.error().reason;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an array of Python 2's numpy has a type, sizes and bytes") {
  const auto read = read_pickle(array_of("K\x02K\x03\x86"));
  REQUIRE(read);
  const auto& array = std::get<Array>(read->values[read->root]);
  CHECK(array.dtype == "u1");
  CHECK(array.sizes == std::vector<std::int64_t>{2, 3});
  CHECK(std::get<std::string>(read->values[array.bytes]) == "\1\2\3\4\5\6");
}

TEST_CASE("an invalid array is rejected") {
  CHECK(has(refusal(array_of("K\x02")), "invalid shape, type or content"));
  CHECK(has(refusal(array_of("K\x02U\x01x\x86")), "invalid size"));
  CHECK(has(refusal(array_of("J\xff\xff\xff\xffK\x03\x86")), "invalid size"));
  CHECK(has(refusal(array_of("K\x02K\x03\x86", "\x88"s)), "column-major"));
  CHECK(
      has(refusal(array_of("K\x02K\x03\x86", "\x89"s, "K\x07")), "invalid shape, type or content"));
  CHECK(has(refusal(beginning + "K\x01\x85" + "b."), "not have five parts"));
  CHECK(has(refusal("\x80\x02K\x01K\x02"
                    "b."s),
            "an object has an unsupported state"));
}

TEST_CASE("only the array functions of numpy are known, and none of them is called") {
  CHECK(is_array_name("numpy._core.multiarray._reconstruct"));
  CHECK(!is_array_name("numpy.load"));
  CHECK(has(refusal("\x80\x02"
                    "cnumpy\nload\n."s),
            "unexpected name numpy.load"));
  CHECK(has(refusal("\x80\x02"
                    "cnumpy\nndarray\n)R."s),
            "an array has no type"));
  CHECK(has(refusal("\x80\x02"
                    "cnumpy\ndtype\n)R."s),
            "an array has no type"));
}

}  // namespace pickle_array_test

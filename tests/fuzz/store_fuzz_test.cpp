// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/store_fuzz.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "proto/c10d/codec.h"
#include "proto/c10d/request.h"

namespace store_fuzz_test {

using namespace cpprun;
using namespace cpprun::c10d;

namespace {

constexpr Dialect dialects[] = {Dialect::undecided, Dialect::a, Dialect::b, Dialect::d};

// The replies are the same however the bytes are cut. (Opcode 8 without a known dialect depends on
// the bytes that arrive with it.)
void check_all_cuts(const std::string& bytes) {
  for (const Dialect dialect : dialects) {
    const std::string whole = fuzz::session(bytes, bytes.size() + 1, dialect);
    if (dialect == Dialect::undecided) {
      fuzz::session(bytes, 1, dialect);
      continue;
    }
    for (const std::size_t piece : {1U, 2U, 3U, 7U, 64U}) {
      REQUIRE(fuzz::session(bytes, piece, dialect) == whole);
    }
  }
}

// Valid requests, so that the store is reached, and damage in one place.
class Writer {
 public:
  explicit Writer(std::uint32_t seed) : random_(seed) {}

  std::string bytes() {
    std::string all = "\x00\xce\xf7\x85\x3c";
    if (random_() % 8 != 0) all.clear();
    const auto count = 1 + random_() % 12;
    for (unsigned at = 0; at < count; ++at) request(all);
    if (random_() % 2 == 0 && !all.empty()) {
      all[random_() % all.size()] = static_cast<char>(random_());
    }
    if (random_() % 4 == 0) all.resize(random_() % (all.size() + 1));
    return all;
  }

 private:
  Bytes key() {
    static constexpr Bytes keys[] = {"/k", "/n", "/q", "", "/never", "init/"};
    return keys[random_() % std::size(keys)];
  }
  Bytes value() {
    static constexpr Bytes values[] = {"", "1", "12", "abc", " 7x", "9223372036854775807"};
    return values[random_() % std::size(values)];
  }

  void request(std::string& out) {
    const Bytes keys[] = {key(), key()};
    const KeyValue entries[] = {{key(), value()}, {key(), value()}};
    const Request requests[] = {Set{key(), value()},
                                CompareSet{key(), value(), value()},
                                Get{key()},
                                Add{key(), static_cast<std::int64_t>(random_() % 5)},
                                Check{keys},
                                Wait{keys},
                                CancelWait{},
                                GetNumKeys{},
                                DeleteKey{key()},
                                Append{key(), value()},
                                MultiGet{keys},
                                MultiSet{entries},
                                QueuePush{key(), "x"},
                                QueuePop{key()},
                                QueueLen{key()},
                                ListKeys{},
                                Barrier{key(), 2},
                                WatchKey{key()},
                                Ping{7}};
    static constexpr Dialect some[] = {Dialect::d, Dialect::d, Dialect::b, Dialect::a};
    encode(requests[random_() % std::size(requests)], some[random_() % std::size(some)], out);
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("every file of the corpus has the same replies however it is cut") {
  const char* directory = std::getenv("CPPRUN_FUZZ_CORPUS");
  REQUIRE(directory != nullptr);
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(directory) / "store")) {
    CAPTURE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    check_all_cuts({std::istreambuf_iterator<char>(file), {}});
    ++count;
  }
  CHECK(count >= 10);
}

TEST_CASE("ten thousand damaged conversations have the same replies however they are cut") {
  for (std::uint32_t seed = 0; seed < 10'000; ++seed) {
    CAPTURE(seed);
    check_all_cuts(Writer(seed).bytes());
  }
}

}  // namespace store_fuzz_test

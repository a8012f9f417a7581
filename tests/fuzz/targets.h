// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Every decoder that reads what a stranger or a worker has written, as one list: a name and a
// function that takes bytes. What a target promises it checks itself; a broken promise throws, and
// a fault of memory is the sanitizers' to see. libFuzzer drives them (fuzz_main.cpp), and
// targets_test.cpp plays the corpus, with and without damage, in every run of the tests.

#include <span>
#include <stdexcept>
#include <string_view>

namespace cpprun::fuzz {

struct BrokenPromise : std::logic_error {
  using logic_error::logic_error;
};

inline void promise(bool kept, const char* what) {
  if (!kept) throw BrokenPromise(what);
}

// The first byte of the input chooses among the ways in which a target can be asked, where there is
// more than one; the rest is what the decoder reads.
struct Target {
  std::string_view name;   // of its directory in the corpus, and for ./dev fuzz
  std::string_view reads;  // for people: whose bytes these are
  void (*run)(std::string_view bytes) = nullptr;
};

std::span<const Target> targets();
// The one of that name, or nothing.
const Target* find_target(std::string_view name);

}  // namespace cpprun::fuzz

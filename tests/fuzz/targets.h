// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Every decoder of untrusted data, as one list: a name and a function that takes bytes. A target
// checks its own promises, and a broken promise throws; memory errors are left to the sanitizers.
// libFuzzer drives the targets (fuzz_main.cpp), and targets_test.cpp runs the corpus, with and
// without damage, in every run of the tests.

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

// If a target has several modes, the first byte of the input selects one; the decoder reads the
// rest.
struct Target {
  std::string_view name;   // also the name of its corpus directory, and the argument of ./dev fuzz
  std::string_view reads;  // a description of the input, for people
  void (*run)(std::string_view bytes) = nullptr;
};

std::span<const Target> targets();
// The target with that name, or nullptr.
const Target* find_target(std::string_view name);

}  // namespace cpprun::fuzz

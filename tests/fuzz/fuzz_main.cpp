// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer's entry point for all targets: CPPRUN_FUZZ names the target. `./dev fuzz NAME SECONDS`
// builds and runs it.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {

const cpprun::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* name = std::getenv("CPPRUN_FUZZ");
  if (name != nullptr) chosen = cpprun::fuzz::find_target(name);
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "fuzz: CPPRUN_FUZZ names no target; there are:\n");
  for (const auto& target : cpprun::fuzz::targets()) {
    std::fprintf(stderr, "  %-12.*s %.*s\n", static_cast<int>(target.name.size()),
                 target.name.data(), static_cast<int>(target.reads.size()), target.reads.data());
  }
  std::exit(64);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A broken promise is an uncaught exception, so libFuzzer keeps the input.
  chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}

// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <string>
int main(int argc, char** argv) {
  std::string text =
      fmt::format("{} {:>5} {:.3f} {:#x} {}", argc, argv[0], 1.5, 77, std::string("x"));
  fmt::format_to(std::back_inserter(text), "{:<10}|{:%F}", 3.25F, fmt::gmtime(std::time_t{0}));
  return text.empty() ? 1 : 0;
}

// SPDX-License-Identifier: BSD-3-Clause
// Prints our expansion of Slurm's host lists for each line of stdin, in one line; for
// slurm_test.py, which also asks Slurm.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <string>

#include "proto/host_list.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto hosts = cpprun::expand_hosts(line);
    std::cout << (hosts ? fmt::format("{}", fmt::join(*hosts, " ")) : "refused") << "\n";
  }
}

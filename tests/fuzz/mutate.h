// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Damage such as wires, disks and enemies do, by a seed: for machines that have no libFuzzer, and
// for a test that plays the same inputs in every run.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cpprun::fuzz {

// One of the inputs, with a few bytes changed, cut, doubled, or mixed with another one's.
std::string mutate(const std::vector<std::string>& inputs, std::mt19937& random);

}  // namespace cpprun::fuzz

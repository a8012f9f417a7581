// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Damage as caused by networks, disks and attackers, from a seed: for machines without libFuzzer,
// and for a test that uses the same inputs in every run.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cpprun::fuzz {

// One of the inputs with a few bytes changed, cut, doubled, or mixed with another input.
std::string mutate(const std::vector<std::string>& inputs, std::mt19937& random);

}  // namespace cpprun::fuzz

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Creates data sets where downloads are impossible: files in the original formats with images that
// can be learnt (one picture per class, plus noise). The same seed gives the same files on every
// machine.

#include <cstdint>
#include <string>

namespace cpprun {

struct SyntheticOptions {
  int training_images = 1000;  // in all; CIFAR-10 has five files for them
  int test_images = 200;
  std::uint64_t seed = 0;
};

// Creates the directory if it is missing, and replaces existing files. Throws FileError.
void make_synthetic_cifar10(const std::string& folder, const SyntheticOptions& options = {});
void make_synthetic_cifar100(const std::string& folder, const SyntheticOptions& options = {});
void make_synthetic_mnist(const std::string& folder, const SyntheticOptions& options = {});

}  // namespace cpprun

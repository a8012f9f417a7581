// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Makes data sets where none can be downloaded: files in the original formats, with images that can
// be learnt (each class has a picture of its own, under noise) and are the same on every machine
// for the same seed.

#include <cstdint>
#include <string>

namespace cpprun {

struct SyntheticOptions {
  int training_images = 1000;  // in all; CIFAR-10 has five files for them
  int test_images = 200;
  std::uint64_t seed = 0;
};

// The folder is created if need be; files of these names are replaced. Throws FileError.
void make_synthetic_cifar10(const std::string& folder, const SyntheticOptions& options = {});
void make_synthetic_cifar100(const std::string& folder, const SyntheticOptions& options = {});
void make_synthetic_mnist(const std::string& folder, const SyntheticOptions& options = {});

}  // namespace cpprun

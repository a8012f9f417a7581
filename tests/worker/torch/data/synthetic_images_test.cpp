// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/data/image_files.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmin.h>
#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/worker/temporary_directory.h"

namespace synthetic_images_test {

using namespace cpprun;
using cpprun::testing::TemporaryDirectory;

TEST_CASE("generated files are read like the original ones") {
  const TemporaryDirectory directory;
  const SyntheticOptions few{.training_images = 23, .test_images = 7};
  make_synthetic_cifar10(directory.file("10"), few);
  make_synthetic_cifar100(directory.file("100"), few);
  make_synthetic_mnist(directory.file("mnist"), few);
  CHECK(read_cifar10(directory.file("10"), Part::training).size() == 23);
  CHECK(read_cifar10(directory.file("10"), Part::test).size() == 7);
  CHECK(read_cifar100(directory.file("100"), Part::training).size() == 23);
  const ImageSet mnist = read_mnist(directory.file("mnist"), Part::test);
  CHECK(mnist.images.sizes() == at::IntArrayRef({7, 1, 28, 28}));
}

TEST_CASE("the same seed generates the same files, another seed others") {
  const TemporaryDirectory directory;
  const auto made = [&directory](std::uint64_t seed) {
    make_synthetic_cifar10(directory.file(""),
                           {.training_images = 5, .test_images = 3, .seed = seed});
    return directory.read("test_batch.bin");
  };
  const std::string first = made(1);
  CHECK(first.size() == 3 * 3073);
  CHECK(made(1) == first);
  CHECK(made(2) != first);
}

TEST_CASE("images of one class resemble each other more than those of another") {
  const TemporaryDirectory directory;
  make_synthetic_cifar10(directory.file(""), {.training_images = 200, .test_images = 50});
  const ImageSet train = read_cifar10(directory.file(""), Part::training);
  const ImageSet test = read_cifar10(directory.file(""), Part::test);
  // The nearest training image has the right label: the data can be learned.
  int right = 0;
  for (std::int64_t i = 0; i < test.size(); ++i) {
    const at::Tensor distances =
        (train.images.to(at::kFloat) - test.images[i].to(at::kFloat)).square().sum({1, 2, 3});
    right += train.labels[distances.argmin().item<std::int64_t>()].equal(test.labels[i]) ? 1 : 0;
  }
  CHECK(right > 45);
}

TEST_CASE("a set without images is rejected") {
  CHECK_THROWS_AS(make_synthetic_mnist("/none", {.training_images = 0}), std::invalid_argument);
  CHECK_THROWS_AS(make_synthetic_cifar10("/none", {.training_images = 4}), std::invalid_argument);
}

}  // namespace synthetic_images_test

// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/data/synthetic_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <vector>

#include "worker/env/io/durable_file.h"
#include "worker/torch/files/safetensors_file.h"

namespace cpprun {
namespace {

namespace fs = std::filesystem;

// Draws images of `channels` × `edge` × `edge` bytes from coarse patches, one picture per class.
class Painter {
 public:
  Painter(int classes, int channels, int edge, std::uint64_t seed)
      : channels_(channels), edge_(edge), random_(seed) {
    for (int i = 0; i < classes * channels * patches * patches; ++i) palette_.push_back(below(256));
  }

  int below(int limit) {
    // Not a standard library distribution: their results differ between libraries.
    return static_cast<int>((random_() >> 33U) % static_cast<std::uint64_t>(limit));
  }

  void paint(int label, std::string& out) {
    for (int channel = 0; channel < channels_; ++channel) {
      for (int row = 0; row < edge_; ++row) {
        for (int column = 0; column < edge_; ++column) {
          const int patch = (row * patches / edge_) * patches + column * patches / edge_;
          const int color = palette_[static_cast<std::size_t>(
              (label * channels_ + channel) * patches * patches + patch)];
          const int noisy = color + below(2 * noise + 1) - noise;
          out.push_back(static_cast<char>(std::clamp(noisy, 0, 255)));
        }
      }
    }
  }

 private:
  static constexpr int patches = 4;
  static constexpr int noise = 48;

  int channels_;
  int edge_;
  std::mt19937_64 random_;
  std::vector<int> palette_;
};

void write(const std::string& folder, const std::string& name, const std::string& bytes) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw FileError(fmt::format("cannot create directory \"{}\": {}", folder, error.message()));
  }
  auto file = DurableFile::create((fs::path(folder) / name).string());
  if (!file) throw FileError(file.error().reason);
  if (const auto done = file->append(bytes); !done) throw FileError(done.error().reason);
  if (const auto done = file->commit(); !done) throw FileError(done.error().reason);
}

std::string cifar_file(Painter& painter, int images, int classes) {
  std::string bytes;
  for (int i = 0; i < images; ++i) {
    const int label = painter.below(classes);
    // CIFAR-100 has five classes per superclass.
    if (classes == 100) bytes.push_back(static_cast<char>(label / 5));
    bytes.push_back(static_cast<char>(label));
    painter.paint(label, bytes);
  }
  return bytes;
}

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    bytes.push_back(static_cast<char>((number >> shift) & 0xFFU));
  }
  return bytes;
}

void write_mnist(const std::string& folder, const std::string& start, Painter& painter,
                 int images) {
  const auto count = static_cast<std::uint32_t>(images);
  std::string pixels = big_endian(0x0803) + big_endian(count) + big_endian(28) + big_endian(28);
  std::string labels = big_endian(0x0801) + big_endian(count);
  for (int i = 0; i < images; ++i) {
    const int label = painter.below(10);
    labels.push_back(static_cast<char>(label));
    painter.paint(label, pixels);
  }
  write(folder, start + "-images-idx3-ubyte", pixels);
  write(folder, start + "-labels-idx1-ubyte", labels);
}

void check(const SyntheticOptions& options, int files) {
  if (options.training_images < files || options.test_images < 1) {
    throw std::invalid_argument(fmt::format("too few synthetic images: {} to train, {} to test",
                                            options.training_images, options.test_images));
  }
}

}  // namespace

void make_synthetic_cifar10(const std::string& folder, const SyntheticOptions& options) {
  constexpr int files = 5;
  check(options, files);
  Painter painter(10, 3, 32, options.seed);
  for (int i = 0; i < files; ++i) {
    const int images = options.training_images / files + (i < options.training_images % files);
    write(folder, fmt::format("data_batch_{}.bin", i + 1), cifar_file(painter, images, 10));
  }
  write(folder, "test_batch.bin", cifar_file(painter, options.test_images, 10));
}

void make_synthetic_cifar100(const std::string& folder, const SyntheticOptions& options) {
  check(options, 1);
  Painter painter(100, 3, 32, options.seed);
  write(folder, "train.bin", cifar_file(painter, options.training_images, 100));
  write(folder, "test.bin", cifar_file(painter, options.test_images, 100));
}

void make_synthetic_mnist(const std::string& folder, const SyntheticOptions& options) {
  check(options, 1);
  Painter painter(10, 1, 28, options.seed);
  write_mnist(folder, "train", painter, options.training_images);
  write_mnist(folder, "t10k", painter, options.test_images);
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads the original binary files of CIFAR-10, CIFAR-100 and MNIST; also MNIST's compressed files,
// as distributed, and CIFAR-10's Python files. Throws FileError for a missing, truncated or wrong
// file; it names the file, the offset, and what was expected there. Also writes such files, with
// synthetic images.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cpprun {

namespace bounds {
// An image file, unpacked: MNIST's largest has 47 MB, CIFAR-100's 154 MB.
inline constexpr std::uint64_t image_file_bytes_max = 512 * 1024 * 1024;
}  // namespace bounds

struct ImageSet {
  at::Tensor images;         // bytes, [count, channels, rows, columns]
  at::Tensor labels;         // int64, [count]
  at::Tensor coarse_labels;  // CIFAR-100's twenty superclasses; else undefined
  int classes = 0;
  std::int64_t size() const { return labels.size(0); }
};

enum class Part { training, test };

// `directory` contains data_batch_1.bin … data_batch_5.bin, test_batch.bin; or the same without
// .bin: the pickles of cifar-10-batches-py, as downloaded by torchvision and older tutorials.
ImageSet read_cifar10(const std::string& directory, Part part);
// Reads train.bin, test.bin.
ImageSet read_cifar100(const std::string& directory, Part part);
// Reads train-images-idx3-ubyte and so on, with .gz or without.
ImageSet read_mnist(const std::string& directory, Part part);

// One file of CIFAR records: `label_bytes` labels (2: coarse, fine), then 3 × 32 × 32 bytes.
ImageSet parse_cifar(std::string_view bytes, int label_bytes, int classes, const std::string& name);
// One pickle of cifar-10-batches-py: a dict with `data` and `labels`. Executes nothing.
ImageSet parse_cifar10_pickle(std::string_view bytes, const std::string& name);
// An IDX file of bytes with this number of dimensions: 3 for MNIST's images, 1 for its labels.
at::Tensor parse_idx(std::string_view bytes, int dimensions, const std::string& name);

// Creates data sets where downloads are impossible: files in the original formats with images that
// can be learnt (one picture per class, plus noise). The same seed gives the same files on every
// machine.

struct SyntheticOptions {
  int training_images = 1000;  // in all; CIFAR-10 has five files for them
  int test_images = 200;
  std::uint64_t seed = 0;
};

// Creates the directory if it is missing, and replaces existing files. Throws FileError.
void make_synthetic_cifar10(const std::string& directory, const SyntheticOptions& options = {});
void make_synthetic_cifar100(const std::string& directory, const SyntheticOptions& options = {});
void make_synthetic_mnist(const std::string& directory, const SyntheticOptions& options = {});

}  // namespace cpprun

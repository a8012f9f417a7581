// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/data/image_files.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "proto/text.h"
#include "worker/env/io/durable_file.h"
#include "worker/torch/files/pickle.h"
#include "worker/torch/files/safetensors_file.h"

namespace cpprun {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t cifar_pixels = std::int64_t{3} * 32 * 32;

using Sizes = std::vector<std::int64_t>;

// The dict entry `name` of the pickle; null if it is missing or of another type.
template <class T>
const T* entry(const pickle::Pickle& read, std::string_view name) {
  const auto* const dict = std::get_if<pickle::Dict>(&read.values[read.root]);
  if (dict == nullptr) return nullptr;
  for (const auto& [key, value] : dict->items) {
    const auto* const text = std::get_if<std::string>(&read.values[key]);
    if (text != nullptr && *text == name) return std::get_if<T>(&read.values[value]);
  }
  return nullptr;
}

// zlib reads an uncompressed file unchanged.
std::string read_bytes(const std::string& path) {
  const std::unique_ptr<gzFile_s, decltype(&::gzclose)> file(::gzopen(path.c_str(), "rbe"),
                                                             &::gzclose);
  if (!file) {
    throw FileError(fmt::format("cannot read \"{}\": {}", path, errno_text(errno)));
  }
  std::string bytes;
  std::vector<char> piece(1 << 20);
  for (int got = 0;
       (got = ::gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()))) != 0;) {
    int code = 0;
    if (got < 0) {
      throw FileError(fmt::format("\"{}\": damaged after {} bytes: {}", path, bytes.size(),
                                  ::gzerror(file.get(), &code)));
    }
    bytes.append(piece.data(), static_cast<std::size_t>(got));
    // A small file may unpack to any size.
    if (bytes.size() > bounds::image_file_bytes_max) {
      throw FileError(fmt::format("\"{}\" has more than {} bytes, too large for a data set file",
                                  path, bounds::image_file_bytes_max));
    }
  }
  int code = 0;
  const char* const wrong = ::gzerror(file.get(), &code);
  if (code != Z_OK) throw FileError(fmt::format("\"{}\": truncated: {}", path, wrong));
  return bytes;
}

at::Tensor byte_tensor(std::string_view bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t number = 0;
  for (const char byte : bytes.substr(0, 4)) {
    number = (number << 8U) | static_cast<unsigned char>(byte);
  }
  return number;
}

// Rejects the first label that is too large; the error names its offset in the file.
void check_labels(const at::Tensor& labels, int classes, std::size_t first, std::size_t distance,
                  const std::string& name) {
  const auto* const values = labels.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    if (values[i] < classes) continue;
    throw FileError(fmt::format("\"{}\": at offset {}: expected a label below {}, found {}", name,
                                first + static_cast<std::size_t>(i) * distance, classes,
                                values[i]));
  }
}

std::string mnist_file(const std::string& directory, const std::string& name) {
  const std::string plain = (fs::path(directory) / name).string();
  // If neither exists, the error names the plain file.
  return !fs::exists(plain) && fs::exists(plain + ".gz") ? plain + ".gz" : plain;
}

ImageSet joined(const std::vector<ImageSet>& sets) {
  std::vector<at::Tensor> images;
  std::vector<at::Tensor> labels;
  for (const ImageSet& set : sets) {
    images.push_back(set.images);
    labels.push_back(set.labels);
  }
  return {.images = at::cat(images),
          .labels = at::cat(labels),
          .coarse_labels = {},
          .classes = sets.front().classes};
}

}  // namespace

ImageSet parse_cifar(std::string_view bytes, int label_bytes, int classes,
                     const std::string& name) {
  const std::size_t record = static_cast<std::size_t>(label_bytes + cifar_pixels);
  const std::size_t rest = bytes.size() % record;
  if (bytes.empty() || rest != 0) {
    throw FileError(fmt::format("\"{}\": at offset {}: expected a record of {} bytes, found {}",
                                name, bytes.size() - rest, record, rest));
  }
  const auto count = static_cast<std::int64_t>(bytes.size() / record);
  const at::Tensor records = byte_tensor(bytes).view({count, static_cast<std::int64_t>(record)});
  const auto label = [&](std::int64_t at) {
    return records.select(1, at).to(at::kLong).contiguous();
  };
  ImageSet set{
      .images = records.narrow(1, label_bytes, cifar_pixels).contiguous().view({count, 3, 32, 32}),
      .labels = label(label_bytes - 1),
      .coarse_labels = {},
      .classes = classes};
  check_labels(set.labels, classes, static_cast<std::size_t>(label_bytes - 1), record, name);
  if (label_bytes == 2) {
    set.coarse_labels = label(0);
    check_labels(set.coarse_labels, 20, 0, record, name);
  }
  return set;
}

at::Tensor parse_idx(std::string_view bytes, int dimensions, const std::string& name) {
  const auto refuse = [&name](std::size_t offset, const std::string& what) {
    throw FileError(fmt::format("\"{}\": at offset {}: {}", name, offset, what));
  };
  const std::size_t head = 4 + 4 * static_cast<std::size_t>(dimensions);
  if (bytes.size() < head) {
    refuse(bytes.size(), fmt::format("truncated: expected a header of {} bytes", head));
  }
  const std::uint32_t magic = 0x0800U + static_cast<std::uint32_t>(dimensions);
  if (big_endian(bytes) != magic) {
    refuse(0, fmt::format("expected magic number {:#010x} (IDX file of bytes in {} dimensions), "
                          "found {:#010x}",
                          magic, dimensions, big_endian(bytes)));
  }
  std::vector<std::int64_t> sizes;
  std::uint64_t expected = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(dimensions); ++i) {
    const std::uint32_t size = big_endian(bytes.substr(4 + 4 * i));
    sizes.push_back(size);
    if (size == 0 || __builtin_mul_overflow(expected, size, &expected)) {
      refuse(4 + 4 * i, fmt::format("invalid dimension {}", size));
    }
  }
  if (bytes.size() - head != expected) {
    refuse(head, fmt::format("expected {} bytes, found {}", expected, bytes.size() - head));
  }
  return byte_tensor(bytes.substr(head)).view(sizes);
}

ImageSet parse_cifar10_pickle(std::string_view bytes, const std::string& name) {
  const auto refuse = [&name](const std::string& why) {
    throw FileError(fmt::format("\"{}\": not a batch of cifar-10-batches-py: {}", name, why));
  };
  const auto read = pickle::read_pickle(bytes);
  if (!read) refuse(read.error().reason);
  const auto* const array = entry<pickle::Array>(*read, "data");
  const auto* const labels = entry<pickle::List>(*read, "labels");
  if (array == nullptr || labels == nullptr) refuse("no array \"data\" or no list \"labels\"");
  const auto count = static_cast<std::int64_t>(labels->items.size());
  if (array->dtype != "u1" || array->sizes != Sizes{count, cifar_pixels}) {
    refuse(fmt::format("data is {} [{}], expected u1 [{}, {}] for {} labels", array->dtype,
                       fmt::join(array->sizes, ", "), count, cifar_pixels, count));
  }
  const auto& pixels = std::get<std::string>(read->values[array->bytes]);
  if (pixels.size() != static_cast<std::size_t>(count * cifar_pixels)) {
    refuse(fmt::format("data has {} bytes, expected {}", pixels.size(), count * cifar_pixels));
  }
  ImageSet set{.images = byte_tensor(pixels).view({count, 3, 32, 32}),
               .labels = at::empty({count}, at::kLong),
               .coarse_labels = {},
               .classes = 10};
  auto* next = set.labels.mutable_data_ptr<std::int64_t>();
  for (const pickle::Index item : labels->items) {
    const auto* const label = std::get_if<std::int64_t>(&read->values[item]);
    if (label == nullptr || *label < 0 || *label >= set.classes)
      refuse("a label is not from 0 to 9");
    *next++ = *label;
  }
  return set;
}

ImageSet read_cifar10(const std::string& directory, Part part) {
  std::vector<std::string> files = {"test_batch"};
  if (part == Part::training) {
    files = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"};
  }
  std::vector<ImageSet> sets;
  for (const std::string& file : files) {
    const std::string plain = (fs::path(directory) / (file + ".bin")).string();
    const std::string pickled = (fs::path(directory) / file).string();
    if (!fs::exists(plain) && fs::exists(pickled)) {
      sets.push_back(parse_cifar10_pickle(read_bytes(pickled), pickled));
    } else {
      sets.push_back(parse_cifar(read_bytes(plain), 1, 10, plain));
    }
  }
  return joined(sets);
}

ImageSet read_cifar100(const std::string& directory, Part part) {
  const std::string path =
      (fs::path(directory) / (part == Part::training ? "train.bin" : "test.bin")).string();
  return parse_cifar(read_bytes(path), 2, 100, path);
}

ImageSet read_mnist(const std::string& directory, Part part) {
  const std::string start = part == Part::training ? "train" : "t10k";
  const std::string images_path = mnist_file(directory, start + "-images-idx3-ubyte");
  const std::string labels_path = mnist_file(directory, start + "-labels-idx1-ubyte");
  ImageSet set{.images = parse_idx(read_bytes(images_path), 3, images_path).unsqueeze(1),
               .labels = parse_idx(read_bytes(labels_path), 1, labels_path).to(at::kLong),
               .coarse_labels = {},
               .classes = 10};
  check_labels(set.labels, set.classes, 8, 1, labels_path);
  if (set.images.size(0) != set.size()) {
    throw FileError(fmt::format("\"{}\": expected {} labels for the images of \"{}\", found {}",
                                labels_path, set.images.size(0), images_path, set.size()));
  }
  return set;
}

namespace {

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

void write_file(const std::string& directory, const std::string& name, const std::string& bytes) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw FileError(fmt::format("cannot create directory \"{}\": {}", directory, error.message()));
  }
  auto file = DurableFile::create((fs::path(directory) / name).string());
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

std::string to_big_endian(std::uint32_t number) {
  std::string bytes;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    bytes.push_back(static_cast<char>((number >> shift) & 0xFFU));
  }
  return bytes;
}

void write_mnist(const std::string& directory, const std::string& start, Painter& painter,
                 int images) {
  const auto count = static_cast<std::uint32_t>(images);
  std::string pixels =
      to_big_endian(0x0803) + to_big_endian(count) + to_big_endian(28) + to_big_endian(28);
  std::string labels = to_big_endian(0x0801) + to_big_endian(count);
  for (int i = 0; i < images; ++i) {
    const int label = painter.below(10);
    labels.push_back(static_cast<char>(label));
    painter.paint(label, pixels);
  }
  write_file(directory, start + "-images-idx3-ubyte", pixels);
  write_file(directory, start + "-labels-idx1-ubyte", labels);
}

void check_options(const SyntheticOptions& options, int files) {
  if (options.training_images < files || options.test_images < 1) {
    throw std::invalid_argument(fmt::format("too few synthetic images: {} to train, {} to test",
                                            options.training_images, options.test_images));
  }
}

}  // namespace

void make_synthetic_cifar10(const std::string& directory, const SyntheticOptions& options) {
  constexpr int files = 5;
  check_options(options, files);
  Painter painter(10, 3, 32, options.seed);
  for (int i = 0; i < files; ++i) {
    const int images = options.training_images / files + (i < options.training_images % files);
    write_file(directory, fmt::format("data_batch_{}.bin", i + 1), cifar_file(painter, images, 10));
  }
  write_file(directory, "test_batch.bin", cifar_file(painter, options.test_images, 10));
}

void make_synthetic_cifar100(const std::string& directory, const SyntheticOptions& options) {
  check_options(options, 1);
  Painter painter(100, 3, 32, options.seed);
  write_file(directory, "train.bin", cifar_file(painter, options.training_images, 100));
  write_file(directory, "test.bin", cifar_file(painter, options.test_images, 100));
}

void make_synthetic_mnist(const std::string& directory, const SyntheticOptions& options) {
  check_options(options, 1);
  Painter painter(10, 1, 28, options.seed);
  write_mnist(directory, "train", painter, options.training_images);
  write_mnist(directory, "t10k", painter, options.test_images);
}

}  // namespace cpprun

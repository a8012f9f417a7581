// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/data/image_files.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "tests/worker/temporary_directory.h"
#include "worker/torch/files/safetensors_file.h"

namespace image_files_test {

using namespace cpprun;
using cpprun::testing::TemporaryDirectory;
using namespace std::string_literals;

namespace {

template <class Action>
std::string refusal(const Action& action) {
  try {
    static_cast<void>(action());
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

// A record whose red plane is 1, green 2, blue 3, but for the first pixel.
std::string record(const std::string& labels) {
  return labels + "\x09" + std::string(1023, '\1') + std::string(1024, '\2') +
         std::string(1024, '\3');
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

const std::string idx_images = "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03"s;
const std::string idx_labels = "\0\0\x08\x01\0\0\0\x02"s;

// A batch of cifar-10-batches-py as Python 2 wrote it: its name, labels, pixels and file names.
std::string pickled_batch(const std::string& labels, const std::string& pixels, int rows) {
  const auto length = static_cast<std::uint32_t>(pixels.size());
  std::string size;
  for (int byte = 0; byte < 4; ++byte) size += static_cast<char>(length >> (8 * byte));
  return "\x80\x02}q\x01(U\x0b"s
         "batch_labelU\x05"
         "a lotU\x06labels](" +
         labels +
         "eU\x04"
         "datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1K"s +
         static_cast<char>(rows) +
         "M\0\x0c\x86"s
         "cnumpy\ndtype\nU\2u1K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T"s +
         size + pixels + "tbU\x09" + "filenames](U\1aU\1beu.";
}

}  // namespace

TEST_CASE("a CIFAR-10 batch in torchvision's format is read, and nothing in it is executed") {
  const std::string pixels = record("") + record("");
  const ImageSet set = parse_cifar10_pickle(pickled_batch("K\5K\7", pixels, 2), "x");
  CHECK(set.size() == 2);
  CHECK(set.labels[1].item<int>() == 7);
  CHECK(set.images.equal(parse_cifar(record("\5") + record("\7"), 1, 10, "y").images));

  const auto error_of = [](const std::string& bytes) {
    return refusal([&] { return parse_cifar10_pickle(bytes, "x"); });
  };
  const std::string who = "\"x\": not a batch of cifar-10-batches-py: ";
  CHECK(error_of(pickled_batch("K\5", pixels, 2)) ==
        who + "data is u1 [2, 3072], expected u1 [1, 3072] for 1 labels");
  CHECK(error_of(pickled_batch("K\5K\7", record(""), 2)) ==
        who + "data has 3072 bytes, expected 6144");
  CHECK(error_of(pickled_batch("K\5K\x0a", pixels, 2)) == who + "a label is not from 0 to 9");
  CHECK(error_of("\x80\x02}.") == who + "no array \"data\" or no list \"labels\"");
  CHECK(error_of("\x80\x02"
                 "cposix\nsystem\n.")
            .find("nothing was executed") != std::string::npos);
}

TEST_CASE("a directory of CIFAR-10 may hold the binary files or Python's") {
  const TemporaryDirectory directory;
  put(directory.file("test_batch"), pickled_batch("K\5K\7", record("") + record(""), 2));
  CHECK(read_cifar10(directory.file(""), Part::test).labels[0].item<int>() == 5);
  put(directory.file("test_batch.bin"), record("\6"));
  CHECK(read_cifar10(directory.file(""), Part::test).labels[0].item<int>() == 6);
  CHECK(refusal([&] {
          return read_cifar10(directory.file(""), Part::training);
        }).find("data_batch_1.bin") != std::string::npos);
}

TEST_CASE("a CIFAR-10 record is a label and three planes") {
  const ImageSet set = parse_cifar(record("\5") + record("\7"), 1, 10, "x");
  CHECK(set.size() == 2);
  CHECK(set.labels[1].item<int>() == 7);
  CHECK(set.images.sizes() == at::IntArrayRef({2, 3, 32, 32}));
  CHECK(set.images[0][0][0][0].item<int>() == 9);
  CHECK(set.images[0][0][0][1].item<int>() == 1);
  CHECK(set.images[1][2][31][31].item<int>() == 3);
}

TEST_CASE("a CIFAR-100 record has a coarse label before the fine one") {
  const ImageSet set = parse_cifar(record("\x13\x63"), 2, 100, "x");
  CHECK(set.labels[0].item<int>() == 99);
  CHECK(set.coarse_labels[0].item<int>() == 19);
  CHECK(refusal([] { return parse_cifar(record("\x14\x63"), 2, 100, "x"); }) ==
        "\"x\": at offset 0: expected a label below 20, found 20");
}

TEST_CASE("a CIFAR file that is truncated or of another format is named with the offset") {
  const std::string two = record("\5") + record("\7");
  CHECK(refusal([&] { return parse_cifar(two.substr(0, 4000), 1, 10, "x"); }) ==
        "\"x\": at offset 3073: expected a record of 3073 bytes, found 927");
  CHECK(refusal([&] { return parse_cifar("", 1, 10, "x"); }) ==
        "\"x\": at offset 0: expected a record of 3073 bytes, found 0");
  CHECK(refusal([&] { return parse_cifar(record("\5") + record("\x0a"), 1, 10, "x"); }) ==
        "\"x\": at offset 3073: expected a label below 10, found 10");
}

TEST_CASE("an IDX file that does not have the size in its header is rejected") {
  const at::Tensor images = parse_idx(idx_images + std::string(12, '\4'), 3, "x");
  CHECK(images.sizes() == at::IntArrayRef({2, 2, 3}));
  CHECK(refusal([] { return parse_idx(idx_images + std::string(11, '\4'), 3, "x"); }) ==
        "\"x\": at offset 16: expected 12 bytes, found 11");
  CHECK(refusal([] { return parse_idx("\0\0"s, 3, "x"); }) ==
        "\"x\": at offset 2: truncated: expected a header of 16 bytes");
  CHECK(refusal([] { return parse_idx(idx_labels + "\1\2", 3, "x"); }) ==
        "\"x\": at offset 10: truncated: expected a header of 16 bytes");
  CHECK(refusal([] { return parse_idx("GIF89a-whatever-comes-now", 1, "x"); }) ==
        "\"x\": at offset 0: expected magic number 0x00000801 (IDX file of bytes in 1 "
        "dimensions), found 0x47494638");
  CHECK(refusal([] { return parse_idx("\0\0\x08\x01\0\0\0\0"s, 1, "x"); }) ==
        "\"x\": at offset 4: invalid dimension 0");
}

TEST_CASE("MNIST is read compressed, as it is distributed, and plain") {
  const TemporaryDirectory directory;
  const std::string images = idx_images + std::string(12, '\4');
  gzFile packed = ::gzopen(directory.file("train-images-idx3-ubyte.gz").c_str(), "wb");
  CHECK(::gzwrite(packed, images.data(), static_cast<unsigned>(images.size())) == 28);
  ::gzclose(packed);
  put(directory.file("train-labels-idx1-ubyte"), idx_labels + "\1\2");
  const ImageSet set = read_mnist(directory.file(""), Part::training);
  CHECK(set.images.sizes() == at::IntArrayRef({2, 1, 2, 3}));
  CHECK(set.labels[1].item<int>() == 2);
}

TEST_CASE("a truncated compressed file is rejected") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("t10k-images-idx3-ubyte.gz");
  gzFile packed = ::gzopen(path.c_str(), "wb");
  const std::string images = idx_images + std::string(12, '\4');
  ::gzwrite(packed, images.data(), static_cast<unsigned>(images.size()));
  ::gzclose(packed);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 6);
  CHECK(refusal([&] { return read_mnist(directory.file(""), Part::test); }).find(path) !=
        std::string::npos);
}

TEST_CASE("images and labels that do not match are rejected") {
  const TemporaryDirectory directory;
  put(directory.file("t10k-images-idx3-ubyte"), idx_images + std::string(12, '\4'));
  put(directory.file("t10k-labels-idx1-ubyte"), "\0\0\x08\x01\0\0\0\x01\3"s);
  CHECK(refusal([&] { return read_mnist(directory.file(""), Part::test); }).find(", found 1") !=
        std::string::npos);
}

TEST_CASE("a missing file of images is named") {
  CHECK(refusal([] { return read_cifar10("/none", Part::test); }) ==
        "cannot read \"/none/test_batch.bin\": No such file or directory");
  CHECK(refusal([] { return read_cifar100("/none", Part::training); }).find("/none/train.bin") !=
        std::string::npos);
}

}  // namespace image_files_test

// SPDX-License-Identifier: BSD-3-Clause
#include "worker/examples/digits_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "proto/text.h"

namespace cpprun::bounds {
// A file of examples that one of the programs here reads into memory.
inline constexpr std::size_t worker_data_file_bytes_max = 64 * 1024 * 1024;
}  // namespace cpprun::bounds

namespace cpprun::examples {
namespace {

constexpr std::string_view magic = "DIGITS01";
constexpr std::size_t header_bytes = 24;
constexpr std::uint8_t ink = 16;
constexpr std::uint32_t images_max = 1'000'000;
constexpr std::uint32_t side_max = 64;
constexpr std::uint32_t classes_max = 256;

std::uint32_t little_endian(std::string_view bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) {
    value = (value << 8) | static_cast<std::uint8_t>(bytes[offset + i]);
  }
  return value;
}

tl::unexpected<Error> damaged(const std::string& name, std::size_t offset,
                              const std::string& problem) {
  return failure(
      fmt::format("invalid digits file \"{}\": at offset {}: {}", name, offset, problem));
}

// The offset of the first byte above `most`, or npos.
std::size_t first_above(std::string_view bytes, std::uint8_t most) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (static_cast<std::uint8_t>(bytes[i]) > most) return i;
  }
  return std::string_view::npos;
}

std::vector<std::uint8_t> copy(std::string_view bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Result<Digits> parse_digits(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with(magic)) return damaged(name, 0, fmt::format("expected \"{}\"", magic));
  if (bytes.size() < header_bytes) {
    return damaged(name, bytes.size(), fmt::format("expected a header of {} bytes", header_bytes));
  }
  const std::uint32_t count = little_endian(bytes, 8);
  const std::uint32_t rows = little_endian(bytes, 12);
  const std::uint32_t columns = little_endian(bytes, 16);
  const std::uint32_t classes = little_endian(bytes, 20);
  const auto outside = [](std::uint32_t value, std::uint32_t most) {
    return value < 1 || value > most;
  };
  if (outside(count, images_max)) return damaged(name, 8, "invalid number of images");
  if (outside(rows, side_max)) return damaged(name, 12, "invalid number of rows");
  if (outside(columns, side_max)) return damaged(name, 16, "invalid number of columns");
  if (outside(classes, classes_max)) return damaged(name, 20, "invalid number of classes");

  const std::size_t pixel_bytes = std::size_t{count} * rows * columns;
  const std::size_t expected = header_bytes + pixel_bytes + count;
  if (bytes.size() != expected) {
    return damaged(
        name, std::min(bytes.size(), expected),
        fmt::format("wrong file size: {} images of {} x {} need {} bytes, the file has {}", count,
                    rows, columns, expected, bytes.size()));
  }
  const std::string_view pixels = bytes.substr(header_bytes, pixel_bytes);
  const std::string_view labels = bytes.substr(header_bytes + pixel_bytes);
  if (const auto at = first_above(pixels, ink); at != std::string_view::npos) {
    return damaged(name, header_bytes + at,
                   fmt::format("expected a pixel from 0 to {}, not {}", ink,
                               static_cast<std::uint8_t>(pixels[at])));
  }
  if (const auto at = first_above(labels, static_cast<std::uint8_t>(classes - 1));
      at != std::string_view::npos) {
    return damaged(name, header_bytes + pixel_bytes + at,
                   fmt::format("expected a label below {}, not {}", classes,
                               static_cast<std::uint8_t>(labels[at])));
  }
  return Digits{.count = static_cast<int>(count),
                .rows = static_cast<int>(rows),
                .columns = static_cast<int>(columns),
                .classes = static_cast<int>(classes),
                .pixels = copy(pixels),
                .labels = copy(labels)};
}

Result<Digits> read_digits(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return failure(fmt::format("cannot read digits \"{}\": {}", path, error.message()));
  if (size > bounds::worker_data_file_bytes_max) {
    return failure(fmt::format("cannot read digits \"{}\": {} bytes, more than the maximum of {}",
                               path, size, bounds::worker_data_file_bytes_max));
  }
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return failure(fmt::format("cannot read digits \"{}\": {}", path, errno_text(errno)));
  }
  return parse_digits(bytes, path);
}

std::string find_digits() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path directory = program.parent_path();
  for (const std::filesystem::path& place :
       {directory / "digits.bin", directory / "data" / "digits.bin",
        directory / "../share/cpprun/digits.bin", directory / "../../share/cpprun/digits.bin",
        std::filesystem::path(CPPRUN_DIGITS_IN_SOURCE_TREE)}) {
    if (std::filesystem::exists(place, error)) return place.lexically_normal().string();
  }
  return {};
}

}  // namespace cpprun::examples

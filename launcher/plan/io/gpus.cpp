// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/gpus.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "proto/text.h"

namespace cpprun::io {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view nvidia = "0x10de";
constexpr std::string_view display = "0x03";  // how the class of a display controller begins

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_gpu(const fs::path& device) {
  // A virtual function is a part of one that is counted.
  std::error_code unknown;
  return trimmed(text_of(device / "vendor")) == nvidia &&
         text_of(device / "class").starts_with(display) && !fs::exists(device / "physfn", unknown);
}

// The number behind "Device Minor:".
std::string minor_of(const std::string& information) {
  constexpr std::string_view name = "Device Minor:";
  const auto at = information.find(name);
  if (at == std::string::npos) return {};
  const auto rest = std::string_view(information).substr(at + name.size());
  return std::string(trimmed(rest.substr(0, rest.find('\n'))));
}

template <class Judge>
int count_in(const fs::path& folder, const Judge& counts) {
  int count = 0;
  std::error_code missing;  // then there are none
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    if (counts(entry.path())) ++count;
  }
  return count;
}

}  // namespace

GpuCounts count_gpus(const std::string& root) {
  const fs::path top = root.empty() ? "/" : root;
  const fs::path known = top / "proc/driver/nvidia/gpus";
  return {.on_bus = count_in(top / "sys/bus/pci/devices", is_gpu),
          .in_driver = count_in(known, [](const fs::path&) { return true; }),
          .usable = count_in(known, [&](const fs::path& gpu) {
            const auto number = minor_of(text_of(gpu / "information"));
            const auto file = top / ("dev/nvidia" + number);
            return !number.empty() && ::access(file.c_str(), R_OK | W_OK) == 0;
          })};
}

}  // namespace cpprun::io

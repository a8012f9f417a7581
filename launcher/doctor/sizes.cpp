// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/sizes.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace cpprun::doctor {

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr double step = 1024;
  if (bytes < static_cast<std::uint64_t>(step)) return fmt::format("{} B", bytes);
  auto size = static_cast<double>(bytes) / step;
  std::size_t unit = 0;
  for (; size >= step && unit + 1 < units.size(); ++unit) size /= step;
  return fmt::format("{:.1f} {}", size, units[unit]);
}

}  // namespace cpprun::doctor

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/text_file.h"

#include <cstdint>
#include <cstring>

namespace cpprun {

std::string packed(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const auto& text : texts) {
    const std::uint64_t size = text.size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += text;
  }
  return bytes;
}

std::vector<std::string> unpacked(std::string_view bytes) {
  std::vector<std::string> texts;
  std::uint64_t size = 0;
  while (bytes.size() >= sizeof size) {
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (bytes.size() < size) break;
    texts.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return texts;
}

}  // namespace cpprun

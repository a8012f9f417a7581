// SPDX-License-Identifier: BSD-3-Clause
#include "proto/page_text.h"

namespace cpprun {

std::string roff_text(std::string_view text) {
  std::string safe;
  for (const char byte : text) {
    if (byte == '\\') {
      safe += "\\e";
    } else if (byte == '-') {
      safe += "\\-";
    } else {
      safe += byte;
    }
  }
  if (safe.starts_with('.') || safe.starts_with('\'')) safe.insert(0, "\\&");
  return safe;
}

std::string shell_word(std::string_view text) {
  std::string safe = "'";
  for (const char byte : text) safe += byte == '\'' ? std::string("'\\''") : std::string(1, byte);
  return safe + "'";
}

std::string zsh_text(std::string_view text) {
  std::string safe;
  for (const char byte : text) {
    if (byte == '[' || byte == ']' || byte == ':') safe += '\\';
    safe += byte;
  }
  return safe;
}

}  // namespace cpprun

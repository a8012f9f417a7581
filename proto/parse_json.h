// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The one way in which JSON and CBOR are parsed. Nesting is bounded before anything is built: code
// that walks, prints or destroys a value may recurse. Text that is too deep, too large or not JSON
// gives a discarded value.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace cpprun {

namespace bounds {
// Arrays and objects inside each other: the formats here have at most ten, and a program that adds
// its own to an error file stays below this. A hundred thousand would use up the stack of code that
// walks them.
inline constexpr std::size_t json_depth_max = 64;
// Most has a lower limit of its own. A trace has half a million events.
inline constexpr std::size_t json_bytes_max = 256 * 1024 * 1024;
}  // namespace bounds

// How deeply arrays and objects are nested in a text, or would be if it went on.
std::size_t json_depth(std::string_view text);

template <class Json = nlohmann::json>
Json parse_json(std::string_view text, std::size_t depth_max = bounds::json_depth_max) {
  if (text.size() > bounds::json_bytes_max || json_depth(text) > depth_max) {
    return Json(Json::value_t::discarded);
  }
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// The same of CBOR.
nlohmann::json parse_cbor(std::string_view bytes);

}  // namespace cpprun

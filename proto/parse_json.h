// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// All JSON and CBOR is parsed here. Nesting is bounded before a value is built, since code that
// walks, prints or destroys a value may recurse. Input that is too deep, too large or invalid gives
// a discarded value.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace cpprun {

namespace bounds {
// Nesting of arrays and objects: the formats here have at most ten levels, and programs that add
// their own to an error file stay below this. A hundred thousand would overflow the stack of
// recursive code.
inline constexpr std::size_t json_depth_max = 64;
// Most callers have a lower limit of their own. A trace has half a million events.
inline constexpr std::size_t json_bytes_max = 256 * 1024 * 1024;
}  // namespace bounds

// The nesting depth of arrays and objects in a text, which may be incomplete.
std::size_t json_depth(std::string_view text);

template <class Json = nlohmann::json>
Json parse_json(std::string_view text, std::size_t depth_max = bounds::json_depth_max) {
  if (text.size() > bounds::json_bytes_max || json_depth(text) > depth_max) {
    return Json(Json::value_t::discarded);
  }
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// The same for CBOR.
nlohmann::json parse_cbor(std::string_view bytes);

}  // namespace cpprun

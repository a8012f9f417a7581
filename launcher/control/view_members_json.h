// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Members of somebody else's JSON, for the files that read it: what is missing, or is of another
// type, is as good as not there.

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/parse_json.h"
#include "proto/result.h"

namespace cpprun::view_json {

using Json = nlohmann::ordered_json;

inline const Json* member(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

inline std::string text_at(const Json& json, const char* name) {
  const Json* found = member(json, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

inline std::optional<double> figure_at(const Json& json, const char* name) {
  const Json* found = member(json, name);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  const auto figure = found->get<double>();
  return std::isfinite(figure) ? std::optional(figure) : std::nullopt;
}

// A number that is none of that type is as good as none.
template <class Number>
std::optional<Number> number_at(const Json& json, const char* name) {
  const auto figure = figure_at(json, name);
  constexpr auto most = static_cast<double>(std::numeric_limits<Number>::max());
  constexpr auto least = static_cast<double>(std::numeric_limits<Number>::min());
  if (!figure || *figure >= most || *figure < least) return std::nullopt;
  return static_cast<Number>(*figure);
}

inline std::vector<std::string> texts_at(const Json& json, const char* name) {
  std::vector<std::string> texts;
  const Json* found = member(json, name);
  if (found == nullptr || !found->is_array()) return texts;
  for (const auto& each : *found) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
}

template <class Number>
Number count_at(const Json& json, const char* name) {
  return number_at<Number>(json, name).value_or(Number{});
}

inline bool flag_at(const Json& json, const char* name, bool otherwise) {
  const Json* found = member(json, name);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : otherwise;
}

inline Json parsed(std::string_view text) {
  return parse_json<Json>(text);
}

inline tl::unexpected<Error> not_understood() {
  return failure("its answer is no JSON of a coordinator: is that the port of a cpprun?");
}

inline std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cpprun::view_json

// SPDX-License-Identifier: BSD-3-Clause
#include "proto/parse_json.h"

#include <algorithm>
#include <string>

namespace cpprun {

namespace {

using Json = nlohmann::json;

// Stops nlohmann's recursive CBOR reader when the nesting is too deep.
class DepthCheck : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= bounds::json_depth_max; }
  bool start_array(std::size_t) override { return ++depth_ <= bounds::json_depth_max; }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool close() {
    --depth_;
    return true;
  }
  std::size_t depth_ = 0;
};

}  // namespace

std::size_t json_depth(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    if (is_quoted) {
      if (byte == '\\') ++at;
      is_quoted = byte != '"';
    } else if (byte == '"') {
      is_quoted = true;
    } else if (byte == '[' || byte == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((byte == ']' || byte == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

nlohmann::json parse_cbor(std::string_view bytes) {
  DepthCheck check;
  if (bytes.size() > bounds::json_bytes_max ||
      !Json::sax_parse(bytes, &check, Json::input_format_t::cbor)) {
    return Json(Json::value_t::discarded);
  }
  return Json::from_cbor(bytes, /*strict=*/true, /*allow_exceptions=*/false);
}

}  // namespace cpprun

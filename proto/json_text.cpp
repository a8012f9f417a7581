// SPDX-License-Identifier: BSD-3-Clause
#include "proto/json_text.h"

#include <algorithm>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::string_view digits = "0123456789";

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = first_character(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace

char JsonText::next() {
  while (!rest_.empty()) {
    const char byte = rest_.front();
    if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t') return byte;
    rest_.remove_prefix(1);
  }
  return '\0';
}

void JsonText::unexpected(const char* wanted) {
  throw Invalid(rest_.empty() ? std::string("the JSON is incomplete")
                              : std::string("not ") + wanted + " in the JSON");
}

bool JsonText::take(std::string_view word) {
  static_cast<void>(next());
  if (!rest_.starts_with(word)) return false;
  rest_.remove_prefix(word.size());
  return true;
}

bool JsonText::take_null() {
  return take("null");
}

bool JsonText::boolean() {
  if (take("true")) return true;
  if (!take("false")) unexpected("a truth value");
  return false;
}

std::uint64_t JsonText::number() {
  if (!is_digit(next())) unexpected("a whole number");
  const std::string_view written = rest_.substr(0, rest_.find_first_not_of(digits));
  const auto value = exact_number<std::uint64_t>(written);
  const bool has_more = written.size() < rest_.size() &&
                        std::string_view(".eE").find(rest_[written.size()]) != rest_.npos;
  if (!value || has_more || (written.size() > 1 && written.front() == '0')) {
    unexpected("a whole number");
  }
  rest_.remove_prefix(written.size());
  return *value;
}

std::string_view JsonText::string() {
  if (next() != '"') unexpected("text");
  rest_.remove_prefix(1);
  bool is_ascii = true;
  for (std::size_t at = 0; at < rest_.size(); ++at) {
    const char byte = rest_[at];
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '\\') return unescaped(at);
    if (code < 0x20) unexpected("text without control characters");
    is_ascii = is_ascii && code < 0x80;
    if (byte != '"') continue;
    const std::string_view text = rest_.substr(0, at);
    if (!is_ascii && !is_utf8(text)) unexpected("UTF-8");
    rest_.remove_prefix(at + 1);
    return text;
  }
  rest_ = {};
  unexpected("text");
}

// Of a string of which `start` bytes, up to its first escape, were read.
std::string_view JsonText::unescaped(std::size_t start) {
  constexpr std::string_view names = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  buffer_.assign(rest_.substr(0, start));
  rest_.remove_prefix(start);
  while (!rest_.empty()) {
    const char byte = rest_.front();
    rest_.remove_prefix(1);
    if (byte == '"') {
      if (!is_utf8(buffer_)) unexpected("UTF-8");
      return buffer_;
    }
    if (static_cast<unsigned char>(byte) < 0x20) unexpected("text without control characters");
    if (byte != '\\') {
      buffer_ += byte;
      continue;
    }
    if (rest_.empty()) break;
    const char name = rest_.front();
    rest_.remove_prefix(1);
    if (const auto at = names.find(name); at != names.npos) {
      buffer_ += meanings[at];
    } else if (name == 'u') {
      append_utf8(buffer_, code_unit());
    } else {
      unexpected("a known escape");
    }
  }
  unexpected("text");
}

// The four digits behind "\u", and those of the second half of a pair.
std::uint32_t JsonText::code_unit() {
  const auto read = [&] {
    const auto unit = hex_number<std::uint16_t>(rest_.substr(0, 4));
    if (!unit || rest_.size() < 4 || rest_.front() == '-') unexpected("four hexadecimal digits");
    rest_.remove_prefix(4);
    return std::uint32_t{*unit};
  };
  const std::uint32_t unit = read();
  if (unit < 0xD800U || unit > 0xDFFFU) return unit;
  if (unit > 0xDBFFU || !rest_.starts_with("\\u")) unexpected("a pair of surrogates");
  rest_.remove_prefix(2);
  const std::uint32_t second = read();
  if (second < 0xDC00U || second > 0xDFFFU) unexpected("a pair of surrogates");
  return 0x10000U + ((unit - 0xD800U) << 10U) + (second - 0xDC00U);
}

void JsonText::open(char bracket, const char* what) {
  if (next() != bracket) unexpected(what);
  if (depth_left_ == 0) unexpected("a shallow value");
  --depth_left_;
  rest_.remove_prefix(1);
}

bool JsonText::more(char bracket, bool is_first) {
  const char byte = next();
  if (byte == bracket) {
    ++depth_left_;
    rest_.remove_prefix(1);
    return false;
  }
  if (is_first) return true;
  if (byte != ',') unexpected("a comma");
  rest_.remove_prefix(1);
  return true;
}

std::string_view JsonText::key() {
  const std::string_view name = string();
  if (next() != ':') unexpected("a colon");
  rest_.remove_prefix(1);
  return name;
}

void JsonText::skip_digits() {
  const std::size_t count = std::min(rest_.find_first_not_of(digits), rest_.size());
  if (count == 0) unexpected("a digit");
  rest_.remove_prefix(count);
}

void JsonText::skip_number() {
  const auto take_any = [&](std::string_view bytes) {
    const bool is_there = !rest_.empty() && bytes.find(rest_.front()) != bytes.npos;
    if (is_there) rest_.remove_prefix(1);
    return is_there;
  };
  static_cast<void>(take_any("-"));
  if (!take_any("0")) skip_digits();
  if (take_any(".")) skip_digits();
  if (take_any("eE")) {
    static_cast<void>(take_any("+-"));
    skip_digits();
  }
}

void JsonText::skip() {
  const char byte = next();
  if (byte == '{') {
    each_member([&](std::string_view) { skip(); });
  } else if (byte == '[') {
    each_entry([&] { skip(); });
  } else if (byte == '"') {
    static_cast<void>(string());
  } else if (byte == '-' || is_digit(byte)) {
    skip_number();
  } else if (!take_null()) {
    static_cast<void>(boolean());
  }
}

void JsonText::end() {
  if (next() != '\0' || !rest_.empty()) unexpected("the end");
}

}  // namespace cpprun

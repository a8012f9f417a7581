// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads JSON from its text in one pass, without a tree of values: for messages of which thousands
// arrive at once. It accepts what parse_json() accepts, and skips numbers of any size.
// fields_json.h reads values from it by the list of their fields.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cpprun {

class JsonText {
 public:
  // Everything here throws this if the text is not JSON, or the next value is of another kind.
  struct Invalid : std::runtime_error {
    using runtime_error::runtime_error;
  };

  JsonText(std::string_view text, std::size_t depth_max) : rest_(text), depth_left_(depth_max) {}

  // Whether the next value is null, which is read only then.
  bool take_null();
  bool boolean();
  // A whole number that is not negative.
  std::uint64_t number();
  // UTF-8. Valid until the next call of any function.
  std::string_view string();
  // Calls `use`, which reads or skips the value, with the key of each member.
  void each_member(const auto& use) {
    open('{', "an object");
    for (bool is_first = true; more('}', is_first); is_first = false) use(key());
  }
  // Calls `use`, which reads or skips it, for each entry of a list.
  void each_entry(const auto& use) {
    open('[', "a list");
    for (bool is_first = true; more(']', is_first); is_first = false) use();
  }
  // Any value.
  void skip();
  // Nothing follows.
  void end();

 private:
  // The next byte that is not blank, which stays; 0 at the end.
  char next();
  [[noreturn]] void unexpected(const char* wanted);
  void open(char bracket, const char* what);
  bool more(char bracket, bool is_first);
  std::string_view key();
  std::string_view unescaped(std::size_t start);
  std::uint32_t code_unit();
  void skip_number();
  void skip_digits();
  bool take(std::string_view word);

  std::string_view rest_;
  std::size_t depth_left_;
  std::string buffer_;  // a string that had escapes
};

}  // namespace cpprun

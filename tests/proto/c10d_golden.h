// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The exchanges that were captured with real clients of each dialect (docs/protocol.md §1), as
// bytes: for every step what the client sends, what it means, and what the server answers.

#include <string>
#include <string_view>
#include <vector>

#include "proto/c10d/request.h"

namespace cpprun::c10d::golden {

// "03 05..00 'init/' 01..00" → bytes. `xx..00` is an 8-byte little-endian number, 'text' is itself.
inline std::string bytes_of(std::string_view text) {
  std::string bytes;
  const auto digit = [](char letter) { return letter <= '9' ? letter - '0' : letter - 'a' + 10; };
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == ' ') {
      ++at;
    } else if (text[at] == '\'') {
      const std::size_t end = text.find('\'', at + 1);
      bytes += text.substr(at + 1, end - at - 1);
      at = end + 1;
    } else {
      bytes.push_back(static_cast<char>(digit(text[at]) * 16 + digit(text[at + 1])));
      at += 2;
      if (text.substr(at, 4) == "..00") {
        bytes.append(7, '\0');
        at += 4;
      }
    }
  }
  return bytes;
}

struct Step {
  std::string_view sent;
  Request meant;
  std::string_view answer;  // empty: there is no answer, or it comes later
};

struct Exchange {
  std::string_view name;
  Dialect dialect;          // the dialect of the connection at its end
  Dialect given;            // the dialect that was assumed at its start
  std::vector<Step> steps;  // on one connection, on one store that starts empty
};

namespace keys {
inline constexpr Bytes k[] = {"/k"};
inline constexpr Bytes k_zz[] = {"/k", "/zz"};
inline constexpr Bytes nope[] = {"/nope"};
inline constexpr Bytes a_b[] = {"/a", "/b"};
inline constexpr KeyValue a1_b22[] = {{"/a", "1"}, {"/b", "22"}};
}  // namespace keys

inline std::vector<Exchange> exchanges() {
  return {
      {"a 1.13 client",
       Dialect::old,
       Dialect::undecided,
       {{"03 05..00 'init/' 01..00", Add{"init/", 1}, "01..00"},
        {"00 02..00 '/k' 01..00 'v'", Set{"/k", "v"}, ""},
        {"05 01..00 02..00 '/k'", Wait{keys::k}, "00"},
        {"02 02..00 '/k'", Get{"/k"}, "01..00 'v'"},
        {"01 02..00 '/k' 01..00 'v' 01..00 'w'", CompareSet{"/k", "v", "w"}, "01..00 'w'"},
        {"04 02..00 02..00 '/k' 03..00 '/zz'", Check{keys::k_zz}, "01"},
        {"06", GetNumKeys{}, "02..00"}}},
      {"a 1.13 client that was announced as one",
       Dialect::a,
       Dialect::a,
       {{"00 02..00 '/k' 01..00 'v'", Set{"/k", "v"}, ""},
        {"08 02..00 '/k'", DeleteKey{"/k"}, "01..00"},
        {"08 02..00 '/k'", DeleteKey{"/k"}, "00..00"},
        {"07 02..00 '/w'", WatchKey{"/w"}, "03"}}},
      {"a 2.1 client",
       Dialect::b,
       Dialect::undecided,
       {{"03 05..00 'init/' 01..00", Add{"init/", 1}, "01..00"},
        {"00 02..00 '/k' 01..00 'v'", Set{"/k", "v"}, ""},
        {"08 02..00 '/k' 02..00 'xy'", Append{"/k", "xy"}, ""},
        {"02 02..00 '/k'", Get{"/k"}, "03..00 'vxy'"},
        {"07 02..00 '/k'", DeleteKey{"/k"}, "01..00"},
        {"0a 02..00 02..00 '/a' 01..00 '1' 02..00 '/b' 02..00 '22'", MultiSet{keys::a1_b22}, ""},
        {"09 02..00 02..00 '/a' 02..00 '/b'", MultiGet{keys::a_b}, "01..00 '1' 02..00 '22'"},
        {"05 01..00 05..00 '/nope'", Wait{keys::nope}, ""},
        {"0b", CancelWait{}, "01"}}},
      {"a 2.14 client",
       Dialect::d,
       Dialect::undecided,
       {{"00 cef7853c", Validate{}, ""},
        {"0d 39300000", Ping{12345}, "39300000"},
        {"04 05..00 'init/' 01..00", Add{"init/", 1}, "01..00"},
        {"01 02..00 '/k' 01..00 'v'", Set{"/k", "v"}, ""},
        {"06 01..00 02..00 '/k'", Wait{keys::k}, "00"},
        {"03 02..00 '/k'", Get{"/k"}, "01..00 'v'"},
        {"04 02..00 '/n' 05..00", Add{"/n", 5}, "05..00"},
        {"02 02..00 '/k' 01..00 'v' 01..00 'w'", CompareSet{"/k", "v", "w"}, "01..00 'w'"},
        {"05 02..00 02..00 '/k' 03..00 '/zz'", Check{keys::k_zz}, "01"},
        {"07", GetNumKeys{}, "03..00"},
        {"08 02..00 '/k'", DeleteKey{"/k"}, "01..00"},
        {"09 03..00 '/ap' 02..00 'xy'", Append{"/ap", "xy"}, ""},
        {"0b 02..00 02..00 '/a' 01..00 '1' 02..00 '/b' 02..00 '22'", MultiSet{keys::a1_b22}, ""},
        {"06 02..00 02..00 '/a' 02..00 '/b'", Wait{keys::a_b}, "00"},
        {"0a 02..00 02..00 '/a' 02..00 '/b'", MultiGet{keys::a_b}, "01..00 '1' 02..00 '22'"},
        {"06 01..00 05..00 '/nope'", Wait{keys::nope}, ""},
        {"0c", CancelWait{}, "01"},
        {"0e 02..00 '/q' 03..00 'one'", QueuePush{"/q", "one"}, ""},
        {"10 02..00 '/q'", QueueLen{"/q"}, "01..00"},
        {"0f 02..00 '/q'", QueuePop{"/q"}, "01..00 03..00 'one'"},
        {"0f 02..00 '/q'", QueuePop{"/q"}, "00..00"},
        {"12 03..00 '/bb' 01..00", Barrier{"/bb", 1}, "00"},
        {"12 04..00 '/bb2' 02..00", Barrier{"/bb2", 2}, ""},
        {"0c", CancelWait{}, "01"}}},
  };
}

}  // namespace cpprun::c10d::golden

// SPDX-License-Identifier: BSD-3-Clause
#include "proto/sniff.h"

#include <array>

namespace cpprun {
namespace {

// The highest opcode with which a client of an old dialect may start; dialect D starts with 0.
constexpr char opcode_max = 11;

constexpr std::array<std::string_view, 10> http_methods{"GET ",     "POST ",    "PUT ",   "HEAD ",
                                                        "DELETE ",  "OPTIONS ", "PATCH ", "TRACE ",
                                                        "CONNECT ", "QUERY "};

// A TLS handshake record; the minor version that follows does not matter.
constexpr std::string_view tls_first_bytes = "\x16\x03";

// Enough to recognize the longest of them.
constexpr std::size_t preamble_bytes = 8;

bool begins(std::string_view bytes, std::string_view word) {
  return bytes.substr(0, word.size()) == word.substr(0, bytes.size());
}

}  // namespace

Protocol sniff(std::string_view first_bytes) {
  if (first_bytes.empty()) return Protocol::undecided;
  if (first_bytes[0] >= 0 && first_bytes[0] <= opcode_max) return Protocol::store;
  const bool short_of_a_word = first_bytes.size() < preamble_bytes;
  if (begins(first_bytes, link_preamble)) {
    return short_of_a_word ? Protocol::undecided : Protocol::link;
  }
  if (begins(first_bytes, tls_first_bytes)) {
    return first_bytes.size() < tls_first_bytes.size() ? Protocol::undecided : Protocol::secure;
  }
  for (const std::string_view method : http_methods) {
    if (!begins(first_bytes, method)) continue;
    return first_bytes.size() >= method.size() ? Protocol::http : Protocol::undecided;
  }
  return Protocol::unknown;
}

std::string_view describe(std::string_view first_bytes) {
  if (sniff(first_bytes) == Protocol::http) return "an HTTP request";
  if (first_bytes.starts_with("SSH-")) return "an SSH client";
  if (sniff(first_bytes) == Protocol::secure) return "a TLS handshake";
  return "an unknown protocol";
}

}  // namespace cpprun

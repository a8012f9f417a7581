// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/message.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "proto/fields_json.h"
#include "proto/parse_json.h"

namespace cpprun::fanout {

// For nlohmann/json: lists the members of each message, for both encoding and decoding.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Member, number, name, slots)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobTerms, flags, program, environment, directory, secrets, nodes,
                                   elastic, conf, grace_milliseconds, is_rehearsal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Terms, host, job)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Begin, master, address, port)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stop, signal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ask, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Here, address, port)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Gone, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ended, code, ran)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Answer, text)

namespace {

using nlohmann::json;

constexpr std::size_t length_bytes = 4;
constexpr std::size_t head_bytes = length_bytes + 1;
constexpr unsigned bits_of_byte = 8;

// Words are sent as they are, because CBOR would limit the output of all hosts to 80 MB/s.
template <class M>
void write_members(const M& m, std::string& bytes) {
  if constexpr (std::is_same_v<M, Words>) {
    bytes += m.is_error ? '\1' : '\0';
    bytes += m.text;
  } else if constexpr (!std::is_empty_v<M>) {
    json::to_cbor(m, bytes);
  }
}

template <class M>
void read_members(std::string_view bytes, M& m) {
  if constexpr (std::is_same_v<M, Words>) {
    m.is_error = bytes.at(0) != '\0';
    m.text = bytes.substr(1);
  } else if constexpr (!std::is_empty_v<M>) {
    parse_cbor(bytes).get_to(m);
  }
}

template <class Variant>
std::string encode_message(const Variant& message) {
  std::string bytes(length_bytes, '\0');
  bytes += static_cast<char>(message.index());
  std::visit([&bytes](const auto& m) { write_members(m, bytes); }, message);
  std::size_t length = bytes.size() - head_bytes;
  for (std::size_t at = 0; at < length_bytes; ++at, length >>= bits_of_byte) {
    bytes[at] = static_cast<char>(length & 0xFFU);
  }
  return bytes;
}

template <class Variant>
Result<std::optional<Variant>> take_message(std::string& bytes) {
  if (bytes.size() < head_bytes) return std::optional<Variant>{};
  std::size_t length = 0;
  for (std::size_t at = length_bytes; at-- > 0;) {
    length = length << bits_of_byte | static_cast<unsigned char>(bytes[at]);
  }
  if (length > message_bytes_max) return failure("not a cpprun message");
  if (bytes.size() - head_bytes < length) return std::optional<Variant>{};
  const auto kind = static_cast<unsigned char>(bytes[length_bytes]);
  if (kind >= std::variant_size_v<Variant>) return failure("not a cpprun message");
  try {
    auto message = alternative<Variant>(kind);
    const auto members = std::string_view(bytes).substr(head_bytes, length);
    std::visit([&members](auto& m) { read_members(members, m); }, message);
    bytes.erase(0, head_bytes + length);
    return std::optional<Variant>(std::move(message));
  } catch (const std::exception&) {  // of nlohmann/json, or of a text that is too short
    return failure("not a cpprun message");
  }
}

}  // namespace

std::string encode(const Down& message) {
  return encode_message(message);
}
std::string encode(const Up& message) {
  return encode_message(message);
}
Result<std::optional<Down>> take_down(std::string& bytes) {
  return take_message<Down>(bytes);
}
Result<std::optional<Up>> take_up(std::string& bytes) {
  return take_message<Up>(bytes);
}

}  // namespace cpprun::fanout

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/codec.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "proto/parse_json.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "rendezvous/etcd/bounds.h"

namespace cpprun::etcd {

namespace {

using Json = nlohmann::json;
using FailureKind = Failure::Kind;

// --- requests ------------------------------------------------------------------------------------

// As a string: a JSON number would lose digits.
std::string digits_of(std::int64_t number) {
  return std::to_string(number);
}

Json json_of(const Compare& compare) {
  Json json{{"key", base64_of(compare.key)}, {"result", "EQUAL"}};
  switch (compare.target) {
    case Compare::Target::created:
      json["target"] = "CREATE";
      json["create_revision"] = digits_of(compare.revision);
      break;
    case Compare::Target::changed:
      json["target"] = "MOD";
      json["mod_revision"] = digits_of(compare.revision);
      break;
    case Compare::Target::value:
      json["target"] = "VALUE";
      json["value"] = base64_of(compare.value);
      break;
  }
  return json;
}

Json json_of(const Operation& operation) {
  return std::visit(Overloaded{
                        [](const Put& put) {
                          Json json{{"key", base64_of(put.key)}, {"value", base64_of(put.value)}};
                          if (put.lease != no_lease) json["lease"] = digits_of(put.lease);
                          return Json{{"request_put", std::move(json)}};
                        },
                        [](const Read& read) {
                          Json json{{"key", base64_of(read.key)}};
                          if (!read.end.empty()) json["range_end"] = base64_of(read.end);
                          if (read.limit > 0) json["limit"] = digits_of(read.limit);
                          return Json{{"request_range", std::move(json)}};
                        },
                        [](const Delete& gone) {
                          return Json{{"request_delete_range", {{"key", base64_of(gone.key)}}}};
                        },
                    },
                    operation);
}

template <class Values>
Json list_of(const Values& values) {
  Json list = Json::array();
  for (const auto& each : values) list.push_back(json_of(each));
  return list;
}

std::string text_of(const Json& json) {
  // Invalid UTF-8 in a user name or password is replaced; etcd does not know such a user anyway.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// --- replies -------------------------------------------------------------------------------------

// An invalid reply; caught in read_answer().
struct Wrong {
  std::string what;
};

const Json* member_of(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// Zero if the member is missing, as the gateway omits zeros.
template <class N>
N number_in(const Json& object, const char* name) {
  const Json* const json = member_of(object, name);
  if (json == nullptr || json->is_null()) return 0;
  std::optional<N> number;
  if (json->is_string()) number = exact_number<N>(json->get_ref<const std::string&>());
  if (json->is_number_unsigned())
    number = exact_number<N>(std::to_string(json->get<std::uint64_t>()));
  if (json->is_number_integer() && !number) {
    number = exact_number<N>(std::to_string(json->get<std::int64_t>()));
  }
  if (!number) throw Wrong{fmt::format("{} is not a whole number", name)};
  return *number;
}

bool flag_in(const Json& object, const char* name) {
  const Json* const json = member_of(object, name);
  if (json == nullptr || json->is_null()) return false;
  if (!json->is_boolean()) throw Wrong{fmt::format("{} is neither true nor false", name)};
  return json->get<bool>();
}

std::string text_in(const Json& object, const char* name) {
  const Json* const json = member_of(object, name);
  if (json == nullptr || json->is_null()) return {};
  if (!json->is_string()) throw Wrong{fmt::format("{} is not a string", name)};
  return json->get<std::string>();
}

std::string bytes_in(const Json& object, const char* name) {
  auto bytes = bytes_of_base64(text_in(object, name));
  if (!bytes) throw Wrong{fmt::format("{} is not base64", name)};
  return *std::move(bytes);
}

// Empty if the member is missing.
const Json& list_in(const Json& object, const char* name) {
  static const Json nothing = Json::array();
  const Json* const json = member_of(object, name);
  if (json == nullptr || json->is_null()) return nothing;
  if (!json->is_array()) throw Wrong{fmt::format("{} is not a list", name)};
  if (json->size() > bounds::etcd_answer_parts_max) {
    throw Wrong{fmt::format("{} has {} elements, the maximum is {}", name, json->size(),
                            bounds::etcd_answer_parts_max)};
  }
  return *json;
}

Header header_in(const Json& object) {
  const Json* const json = member_of(object, "header");
  if (json == nullptr) throw Wrong{"no header"};
  const Header header{.cluster = number_in<std::uint64_t>(*json, "cluster_id"),
                      .member = number_in<std::uint64_t>(*json, "member_id"),
                      .revision = number_in<Revision>(*json, "revision"),
                      .term = number_in<std::uint64_t>(*json, "raft_term")};
  // Both start at 1.
  if (header.revision <= 0 || header.term == 0) throw Wrong{"empty header"};
  return header;
}

Outcome outcome_of(const Json& json) {
  Outcome outcome;
  const Json* const range = member_of(json, "response_range");
  if (range == nullptr) return outcome;
  for (const Json& each : list_in(*range, "kvs")) {
    outcome.pairs.push_back({.key = bytes_in(each, "key"),
                             .value = bytes_in(each, "value"),
                             .created = number_in<Revision>(each, "create_revision"),
                             .changed = number_in<Revision>(each, "mod_revision"),
                             .lease = number_in<LeaseId>(each, "lease")});
  }
  outcome.has_more = flag_in(*range, "more");
  return outcome;
}

Decided decided_of(const Transaction& asked, const Json& json) {
  Decided decided{.header = header_in(json), .succeeded = flag_in(json, "succeeded")};
  for (const Json& each : list_in(json, "responses")) decided.outcomes.push_back(outcome_of(each));
  if (asked.compares.empty() && !decided.succeeded)
    throw Wrong{"an unconditional transaction failed"};
  const auto& done = decided.succeeded ? asked.success : asked.otherwise;
  if (decided.outcomes.size() != done.size()) {
    throw Wrong{fmt::format("{} results for {} operations", decided.outcomes.size(), done.size())};
  }
  return decided;
}

Answer answer_of(const Request& request, const Json& json) {
  return std::visit(
      Overloaded{
          [&](const Grant& asked) -> Answer {
            const Granted granted{header_in(json), number_in<LeaseId>(json, "ID"),
                                  number_in<std::int64_t>(json, "TTL")};
            if (granted.lease != asked.lease) throw Wrong{"granted another lease"};
            if (granted.ttl_seconds <= 0) throw Wrong{"a lease without a duration"};
            return granted;
          },
          [&](const KeepAlive& asked) -> Answer {
            // For the gateway this is a stream of replies; this is its first.
            const Json* const result = member_of(json, "result");
            if (result == nullptr) throw Wrong{"no result"};
            const KeptAlive kept{header_in(*result), number_in<LeaseId>(*result, "ID"),
                                 number_in<std::int64_t>(*result, "TTL")};
            if (kept.lease != asked.lease) throw Wrong{"the response is for another lease"};
            return kept;
          },
          [&](const Revoke&) -> Answer { return Revoked{header_in(json)}; },
          [&](const Transaction& asked) -> Answer { return decided_of(asked, json); },
          [&](const Authenticate&) -> Answer {
            Authenticated authenticated{text_in(json, "token")};
            const auto& token = authenticated.token;
            const auto is_printable = [](char byte) { return byte > ' ' && byte <= '~'; };
            if (token.empty() || token.size() > bounds::etcd_token_bytes_max ||
                !std::ranges::all_of(token, is_printable)) {
              throw Wrong{"invalid token"};
            }
            return authenticated;
          },
          [&](const GetAlarms&) -> Answer {
            Alarms alarms;
            for (const Json& each : list_in(json, "errors")) {
              if (!each.is_string()) throw Wrong{"an error is not a string"};
              const auto& error = each.get_ref<const std::string&>();
              if (error.find("alarm:NOSPACE") != error.npos) alarms.has_no_space = true;
            }
            return alarms;
          },
      },
      request);
}

// {"error": "…", "message": "…", "code": 14}, the same without "error", or, in a stream, {"error":
// {"grpc_code": 14, "message": "…"}}.
std::optional<Failure> failure_of(const Json& json) {
  const Json* const error = member_of(json, "error");
  const Json& told = error != nullptr && error->is_object() ? *error : json;
  const char* const code_name = member_of(told, "grpc_code") != nullptr ? "grpc_code" : "code";
  if (member_of(told, code_name) == nullptr) return std::nullopt;
  const int code = number_in<int>(told, code_name);
  std::string words = text_in(told, "message");
  if (words.empty()) words = text_in(told, "error");
  const FailureKind kind = kind_of(code, words);
  if (words.empty()) words = "no reason given";
  return Failure{kind, plain_line(words, bounds::etcd_words_bytes_max)};
}

Failure nonsense(unsigned http_status, std::string_view what) {
  return {FailureKind::nonsense, fmt::format("HTTP {}: {}", http_status, what)};
}

Heard heard(const Request& request, unsigned http_status, const Json& json) {
  if (auto failed = failure_of(json)) return tl::unexpected(*std::move(failed));
  if (http_status != 200) return tl::unexpected(nonsense(http_status, "no reason given"));
  return answer_of(request, json);
}

// A stream has one reply per line; only the first is used.
std::string_view first_of(const Request& request, std::string_view body) {
  if (!std::holds_alternative<KeepAlive>(request)) return body;
  return body.substr(0, body.find('\n'));
}

}  // namespace

Post to_post(const Request& request) {
  return std::visit(
      Overloaded{
          [](const Grant& grant) {
            return Post{"/v3/lease/grant", text_of({{"ID", digits_of(grant.lease)},
                                                    {"TTL", digits_of(grant.ttl_seconds)}})};
          },
          [](const KeepAlive& keep) {
            return Post{"/v3/lease/keepalive", text_of({{"ID", digits_of(keep.lease)}})};
          },
          [](const Revoke& revoke) {
            return Post{"/v3/lease/revoke", text_of({{"ID", digits_of(revoke.lease)}})};
          },
          [](const Transaction& transaction) {
            Json json = Json::object();
            if (!transaction.compares.empty()) json["compare"] = list_of(transaction.compares);
            if (!transaction.success.empty()) json["success"] = list_of(transaction.success);
            if (!transaction.otherwise.empty()) json["failure"] = list_of(transaction.otherwise);
            return Post{"/v3/kv/txn", text_of(json)};
          },
          [](const Authenticate& who) {
            return Post{"/v3/auth/authenticate",
                        text_of({{"name", who.user}, {"password", who.password}})};
          },
          [](const GetAlarms&) {
            return Post{"/v3/maintenance/status", text_of(Json::object())};
          },
      },
      request);
}

Heard read_answer(const Request& request, unsigned http_status, std::string_view body) {
  const auto text = first_of(request, body);
  if (text.size() > bounds::etcd_answer_bytes_max) {
    return tl::unexpected(
        nonsense(http_status, fmt::format("{} bytes, which is too much", text.size())));
  }
  if (json_depth(text) > bounds::etcd_answer_depth_max) {
    return tl::unexpected(nonsense(http_status, "JSON is nested too deeply"));
  }
  try {
    const Json json = parse_json(text);
    if (json.is_discarded() || !json.is_object()) {
      return tl::unexpected(nonsense(
          http_status, fmt::format("\"{}\" is not a JSON object",
                                   plain_line(text.substr(0, bounds::etcd_words_bytes_max), 80))));
    }
    return heard(request, http_status, json);
  } catch (const Wrong& wrong) {
    return tl::unexpected(nonsense(http_status, wrong.what));
  } catch (const Json::exception& error) {
    return tl::unexpected(nonsense(http_status, plain_line(error.what(), 80)));
  }
}

}  // namespace cpprun::etcd

namespace cpprun {

namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 64;

constexpr auto digits = [] {
  std::array<std::uint8_t, 256> table{};
  table.fill(no_digit);
  for (std::size_t at = 0; at < alphabet.size(); ++at) {
    table[static_cast<unsigned char>(alphabet[at])] = static_cast<std::uint8_t>(at);
  }
  return table;
}();

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
}

}  // namespace

std::string base64_of(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::uint32_t three =
        byte_at(bytes, at) << 16 | byte_at(bytes, at + 1) << 8 | byte_at(bytes, at + 2);
    text += alphabet[three >> 18];
    text += alphabet[three >> 12 & 63];
    text += at + 1 < bytes.size() ? alphabet[three >> 6 & 63] : '=';
    text += at + 2 < bytes.size() ? alphabet[three & 63] : '=';
  }
  return text;
}

std::optional<std::string> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t missing = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(missing);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t held = 0;
  int bits = 0;
  for (const char each : text) {
    const std::uint8_t digit = digits[static_cast<unsigned char>(each)];
    if (digit == no_digit) return std::nullopt;
    held = held << 6 | digit;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(held >> bits & 0xFF);
    held &= (1U << bits) - 1;
  }
  // Leftover bits have to be zero, or two texts would decode to the same bytes.
  if (held != 0) return std::nullopt;
  return bytes;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/token.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "proto/secure/openssl.h"
#include "proto/text.h"

namespace cpprun {
namespace {

constexpr std::string_view form = "cpprun1.";
constexpr std::string_view key_purpose = "cpprun token";
constexpr std::string_view digits = "0123456789abcdef";

std::string_view name_of(TokenPurpose purpose) {
  return purpose == TokenPurpose::read ? "read" : "order";
}

template <class Bytes>
std::string hex(const Bytes& bytes) {
  std::string text;
  for (const auto byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += digits[value / 16];
    text += digits[value % 16];
  }
  return text;
}

std::optional<std::string> unhex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += 2) {
    const auto byte = hex_number<unsigned char>(text.substr(at, 2));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

std::string mac_of(const OpenSsl& openssl, const Secret& secret, std::string_view said) {
  Key key = derive_key(openssl, *secret.key, key_purpose);
  const Key mac = derive_key(openssl, key, said);
  ::explicit_bzero(key.data(), key.size());
  return hex(mac);
}

// Constant time: looks at every byte.
bool is_same(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned char difference = 0;
  for (std::size_t at = 0; at < one.size(); ++at) {
    // Volatile, so that the compiler cannot stop early.
    volatile unsigned char each = static_cast<unsigned char>(difference | (one[at] ^ other[at]));
    difference = each;
  }
  return difference == 0;
}

// Removes and returns the text behind the last dot; empty if there is no dot.
std::optional<std::string_view> take_last(std::string_view& text) {
  const auto dot = text.rfind('.');
  if (dot == text.npos) return std::nullopt;
  const auto last = text.substr(dot + 1);
  text = text.substr(0, dot);
  return last;
}

struct Parsed {
  TokenTerms terms;
  std::string_view id;
  std::string_view said;  // the text that the MAC covers
  std::string_view mac;
};

// Parses a token without verifying it; empty if it is not a token.
std::optional<Parsed> parse(std::string_view text) {
  Parsed parsed;
  if (text.size() > token_bytes_max || !text.starts_with(form)) return std::nullopt;
  const auto mac = take_last(text);
  parsed.said = text;
  text.remove_prefix(std::min(form.size(), text.size()));
  auto last = take_last(text);
  if (!mac || !last) return std::nullopt;
  parsed.mac = *mac;
  if (last->starts_with('j')) {
    auto job = unhex(last->substr(1));
    if (!job || job->empty()) return std::nullopt;
    parsed.terms.job = std::move(*job);
    last = take_last(text);
  }
  const auto expiry = exact_number<std::int64_t>(last.value_or(""));
  const auto purpose = take_last(text);
  if (!expiry || *expiry < 0 || !purpose || !is_secret_id(text)) return std::nullopt;
  parsed.terms.expiry_unix_seconds = *expiry;
  parsed.id = text;
  if (*purpose == name_of(TokenPurpose::control)) {
    parsed.terms.purpose = TokenPurpose::control;
  } else if (*purpose != name_of(TokenPurpose::read)) {
    return std::nullopt;
  }
  return parsed;
}

std::string length_text(std::int64_t seconds) {
  constexpr std::int64_t minute = 60;
  constexpr std::int64_t hour = 60 * minute;
  constexpr std::int64_t day = 24 * hour;
  if (seconds < 2 * minute) return fmt::format("{} s", seconds);
  if (seconds < 2 * hour) return fmt::format("{} min", seconds / minute);
  if (seconds < 2 * day) return fmt::format("{} h", seconds / hour);
  return fmt::format("{} d", seconds / day);
}

}  // namespace

std::string make_token(const OpenSsl& openssl, const Secret& secret, const TokenTerms& terms) {
  std::string said =
      fmt::format("{}{}.{}.{}", form, secret.id, name_of(terms.purpose), terms.expiry_unix_seconds);
  if (!terms.job.empty()) said += ".j" + hex(terms.job);
  return fmt::format("{}.{}", said, mac_of(openssl, secret, said));
}

std::string secret_id_of_token(std::string_view text) {
  const auto parsed = parse(text);
  return std::string(parsed ? parsed->id : std::string_view());
}

Result<TokenTerms> check_token(const OpenSsl& openssl, const Secrets& secrets,
                               std::string_view text, WallTime now, const TokenUse& use) {
  const auto parsed = parse(text);
  if (!parsed) return failure("this is not a token of cpprun, or only a part of one");
  const Secret* const secret = find_secret(secrets, parsed->id);
  if (secret == nullptr) {
    return failure(fmt::format(
        "the token was made with the secret \"{}\", which this server does not have", parsed->id));
  }
  // Nothing in the token is trusted, or reported on, before this check.
  if (!is_same(parsed->mac, mac_of(openssl, *secret, parsed->said))) {
    return failure(fmt::format(
        "the token is damaged, or was made with another secret with the id \"{}\"", parsed->id));
  }
  const TokenTerms& terms = parsed->terms;
  const std::int64_t now_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  if (now_seconds >= terms.expiry_unix_seconds) {
    return failure(fmt::format("the token expired {} ago; create another with \"cpprunctl token\"",
                               length_text(now_seconds - terms.expiry_unix_seconds)));
  }
  if (use.purpose == TokenPurpose::control && terms.purpose != TokenPurpose::control) {
    return failure("this command needs control access, and the token gives only read access");
  }
  if (!terms.job.empty() && terms.job != use.job) {
    return failure(fmt::format("the token is for job \"{}\" only", plain_line(terms.job)));
  }
  return terms;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/secret.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::string_view form = "cpprun1";
constexpr std::size_t id_bytes_max = 64;
constexpr std::string_view hex_digits = "0123456789abcdef";

bool is_word(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '_';
}

// Arithmetic without table lookups, so that the timing does not depend on the digit.
int value_of(char digit) {
  const int lower = digit | 0x20;
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (lower >= 'a' && lower <= 'f') return lower - 'a' + 10;
  return -1;
}

bool read_key(std::string_view digits, Key& key) {
  if (digits.size() != 2 * key_bytes) return false;
  for (std::size_t at = 0; at < key_bytes; ++at) {
    const int high = value_of(digits[2 * at]);
    const int low = value_of(digits[2 * at + 1]);
    if (high < 0 || low < 0) return false;
    key[at] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

Result<Secret> parse_line(std::string_view line, MakeKey make_key) {
  const auto first = line.find(':');
  const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
  if (second == line.npos || line.substr(0, first) != form) {
    return failure(
        fmt::format("is not a cpprun secret; expected cpprun1:ID:KEY, where KEY is {} hexadecimal "
                    "digits",
                    2 * key_bytes));
  }
  const std::string_view id = line.substr(first + 1, second - first - 1);
  if (!is_secret_id(id)) {
    return failure(
        fmt::format("has an invalid id; use 1 to {} letters, digits, dots, dashes or underscores",
                    id_bytes_max));
  }
  std::shared_ptr<Key> key = make_key();
  if (!read_key(line.substr(second + 1), *key)) {
    return failure(
        fmt::format("has an invalid key; expected {} hexadecimal digits", 2 * key_bytes));
  }
  // A file filled with zeros, for example, is not a secret.
  if (std::ranges::all_of(*key, [&](unsigned char byte) { return byte == key->front(); })) {
    return failure("has a key of one repeated byte");
  }
  return Secret{std::string(id), std::move(key)};
}

}  // namespace

bool is_secret_id(std::string_view id) {
  return !id.empty() && id.size() <= id_bytes_max && std::ranges::all_of(id, is_word);
}

const Secret* find_secret(const Secrets& secrets, std::string_view id) {
  const auto found = std::ranges::find(secrets, id, &Secret::id);
  return found == secrets.end() ? nullptr : &*found;
}

Result<Secrets> parse_secrets(std::string_view text, MakeKey make_key) {
  Secrets secrets;
  int number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    auto secret = parse_line(line, make_key);
    if (!secret) return failure(fmt::format("line {} {}", number, secret.error().reason));
    if (find_secret(secrets, secret->id) != nullptr) {
      return failure(fmt::format("line {} repeats the id \"{}\"", number, secret->id));
    }
    if (secrets.size() == secrets_max) {
      return failure(fmt::format("more than {} secrets", secrets_max));
    }
    secrets.push_back(*std::move(secret));
  }
  if (secrets.empty()) return failure("no secret found");
  return secrets;
}

std::string secret_line(const Secret& secret) {
  std::string line = fmt::format("{}:{}:", form, secret.id);
  line.reserve(line.size() + 2 * key_bytes);
  for (const unsigned char byte : *secret.key) {
    line += hex_digits[byte / 16];
    line += hex_digits[byte % 16];
  }
  return line;
}

namespace {

// Relative paths are ignored: where the secret is must not depend on the current directory.
std::string directory_in(const Environment& environment, std::string_view variable) {
  const std::string* const said = find_variable(environment, variable);
  return said != nullptr && said->starts_with('/') ? *said : std::string();
}

}  // namespace

SecretPath secret_path(std::string_view named, const Environment& environment) {
  if (!named.empty()) return {.path = std::string(named), .was_named = true};
  const std::string* const variable = find_variable(environment, secret_file_variable);
  if (variable != nullptr && !variable->empty()) return {.path = *variable, .was_named = true};
  return {.path = own_secret_path(environment), .was_named = false};
}

Result<bool> secret_required(const Environment& environment) {
  const std::string* const said = find_variable(environment, "CPPRUN_REQUIRE_SECRET");
  if (said == nullptr || said->empty() || *said == "0") return false;
  if (*said == "1") return true;
  return failure(
      fmt::format("CPPRUN_REQUIRE_SECRET={} is neither 1 (on) nor 0 (off)", plain_line(*said)));
}

std::string own_secret_path(const Environment& environment) {
  std::string settings = directory_in(environment, "XDG_CONFIG_HOME");
  if (settings.empty()) {
    settings = directory_in(environment, "HOME");
    if (settings.empty()) return {};
    settings += "/.config";
  }
  return settings + "/cpprun/secret";
}

}  // namespace cpprun

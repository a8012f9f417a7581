// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/rendezvous_conf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "launcher/cli/setting_reader.h"
#include "proto/etcd_bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

// A lease is an interval times the attempts; it and the last call travel as milliseconds in an int.
constexpr double seconds_max = 2'000'000;
constexpr double interval_seconds_max = 20'000;
constexpr int attempts_max = 100;
// A shorter heartbeat would be work for nothing.
constexpr double seconds_min = 0.01;

// Keys of torchrun that say nothing to a coordinator that polls nobody and has no phases to time
// out.
constexpr std::array<std::string_view, 4> without_effect = {"close_timeout", "heartbeat_timeout",
                                                            "read_timeout", "use_libuv"};

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

template <class N>
std::optional<N> between(N least, N most, std::string_view text) {
  const auto number = exact_number<N>(text);
  // Written so that "nan" is outside.
  return number && *number >= least && *number <= most ? number : std::nullopt;
}

// torchrun's words for yes and no.
std::optional<bool> yes_or_no(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array<std::string_view, 5> yes = {"1", "true", "t", "yes", "y"};
  constexpr std::array<std::string_view, 5> no = {"0", "false", "f", "no", "n"};
  if (contains(yes, lower)) return true;
  if (contains(no, lower)) return false;
  return std::nullopt;
}

struct TimeRange {
  double least;
  double most;
};
TimeRange range_of(std::string_view key) {
  if (key == "keep_alive_interval") return {seconds_min, interval_seconds_max};
  if (key == "etcd_lease") {
    return {static_cast<double>(bounds::etcd_lease_min.count()),
            static_cast<double>(bounds::etcd_lease_max.count())};
  }
  return {seconds_min, seconds_max};
}

// Where a time that was given belongs; nullptr for any other key.
std::optional<Duration>* time_named(std::string_view key, Timeouts& timeouts) {
  if (key == "etcd_lease") return &timeouts.etcd.lease;
  if (key == "keep_alive_interval") return &timeouts.keep_alive_interval;
  if (key == "last_call_timeout") return &timeouts.last_call_timeout;
  // `timeout` is static's name for it.
  if (key == "join_timeout" || key == "timeout") return &timeouts.join_timeout;
  return nullptr;
}

// Where a word for etcd belongs, under the name that etcd or etcd-v2 has for it; nullptr for any
// other key.
std::string* word_named(std::string_view key, Timeouts& timeouts) {
  EtcdMeeting& etcd = timeouts.etcd;
  if (key == "protocol") return &timeouts.etcd_protocol;
  if (key == "cacert" || key == "ca_cert") return &etcd.authorities_file;
  if (key == "cert" || key == "ssl_cert") return &etcd.certificate_file;
  if (key == "key" || key == "ssl_cert_key") return &etcd.key_file;
  if (key == "etcd_prefix") return &etcd.prefix;
  if (key == "user") return &etcd.user;
  if (key == "password_file") return &etcd.password_file;
  return nullptr;
}

void read_pair(std::string_view key, std::string_view value, const std::string& source,
               Timeouts& timeouts, std::vector<std::string>& mistakes) {
  if (auto* const time = time_named(key, timeouts)) {
    const auto [least, most] = range_of(key);
    const auto seconds = between(least, most, value);
    if (!seconds) {
      mistakes.push_back(fmt::format("{}: {}={} is no number of seconds from {} to {:.0f}", source,
                                     key, value, least, most));
    } else if (key != "timeout" || !*time) {  // join_timeout wins
      *time = std::chrono::round<Duration>(std::chrono::duration<double>(*seconds));
    }
    return;
  }
  if (key == "keep_alive_max_attempt") {
    timeouts.keep_alive_attempts = between(1, attempts_max, value);
    if (!timeouts.keep_alive_attempts) {
      mistakes.push_back(fmt::format("{}: {}={} is no whole number from 1 to {}", source, key,
                                     value, attempts_max));
    }
    return;
  }
  if (key == "is_host") {
    timeouts.is_host = yes_or_no(value);
    if (!timeouts.is_host) {
      mistakes.push_back(fmt::format("{}: is_host={} is neither true nor false", source, value));
    }
    return;
  }
  if (auto* const word = word_named(key, timeouts)) {
    *word = value;
    if (key == "protocol" && value != "http" && value != "https") {
      mistakes.push_back(fmt::format("{}: protocol={} is neither http nor https", source, value));
    }
    return;
  }
  if (contains(without_effect, key) || (key == "store_type" && value == "tcp")) return;
  if (key == "rank") {
    mistakes.push_back(
        fmt::format("{}: rank={} belongs into --node-rank={}", source, value, value));
  } else if (key == "store_type") {
    mistakes.push_back(fmt::format("{}: store_type={} is not there, only tcp is", source, value));
  } else {
    mistakes.push_back(
        fmt::format("{}: {} is no key; there are join_timeout, timeout, last_call_timeout, "
                    "keep_alive_interval, keep_alive_max_attempt and is_host, for etcd protocol, "
                    "cacert, cert, key, user, password_file, etcd_prefix and etcd_lease, and "
                    "torchrun's others without effect",
                    source, key));
  }
}

}  // namespace

Timeouts read_rendezvous_conf(std::string_view text, const std::string& source,
                              std::vector<std::string>& mistakes) {
  Timeouts timeouts;
  std::string_view rest = text;
  while (!trimmed(rest).empty()) {
    const auto comma = rest.find(',');
    const auto pair = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const auto equals = pair.find('=');
    const auto key = trimmed(pair.substr(0, equals));
    const auto value =
        equals == std::string_view::npos ? std::string_view{} : trimmed(pair.substr(equals + 1));
    if (key.empty() || value.empty()) {
      mistakes.push_back(
          fmt::format("{}: \"{}\" is not key=value, as in join_timeout=600", source, pair));
      continue;
    }
    read_pair(key, value, source, timeouts, mistakes);
  }
  return timeouts;
}

}  // namespace cpprun

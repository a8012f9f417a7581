// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/etcd_meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "rendezvous/etcd/etcd_endpoint.h"

namespace cpprun {

namespace {

// So many have everything that the one that leads has, and each answer waits for all of them.
constexpr std::size_t standbys_max = 2;

// Letters, digits and dashes as they are, everything else by its number: names keep apart what they
// are made of.
std::string plain(std::string_view text) {
  std::string plain;
  for (const char byte : text) {
    const auto letter = static_cast<unsigned char>(byte);
    if (std::isalnum(letter) != 0 || byte == '-' || byte == '_') {
      plain += byte;
    } else {
      plain += fmt::format("%{:02x}", letter);
    }
  }
  return plain;
}

}  // namespace

Result<EtcdMembers> etcd_endpoints(std::string_view text, bool is_secure) {
  auto endpoints = parse_etcd_endpoints(text);
  if (!endpoints) return tl::unexpected(endpoints.error());
  const bool names_protocol = text.find("://") != text.npos;
  EtcdMembers members{.first = {endpoints->front().host, endpoints->front().port}};
  for (EtcdEndpoint& each : *endpoints) {
    if (!names_protocol) each.is_secure = is_secure;
    members.all += (members.all.empty() ? "" : ",") + to_string(each);
  }
  return members;
}

std::string etcd_cluster(std::string_view prefix, std::string_view job) {
  return fmt::format("job.{}.{}", plain(prefix), plain(job));
}

DaemonOptions own_daemon_options(const Config& config, const std::string& name,
                                 const std::string& address, Secrets secrets) {
  const EtcdMeeting& etcd = *config.etcd;
  DaemonOptions options{
      .port = 0,
      .is_quiet = true,
      .log_level = config.logs.level > LogLevel::info ? LogLevel::debug : LogLevel::warning,
      .status_access = config.status_access,
      .looks_for_secret = false,
      .etcd = etcd.endpoints,
      .etcd_user = etcd.user,
      .etcd_password_file = etcd.password_file,
      .etcd_authorities_file = etcd.authorities_file,
      .etcd_certificate_file = etcd.certificate_file,
      .etcd_key_file = etcd.key_file,
      .cluster = etcd_cluster(etcd.prefix, config.job),
      .name = name,
      .advertised = address.find(':') == std::string::npos ? address : "[" + address + "]",
      .has_plain_store = false};
  options.secrets_in_hand = std::move(secrets);
  options.etcd_lease = etcd.lease.value_or(options.etcd_lease);
  options.standbys_max = standbys_max;
  options.leaves_nothing = true;
  options.lease_max = std::max(options.lease_max, config.lease());
  return options;
}

}  // namespace cpprun

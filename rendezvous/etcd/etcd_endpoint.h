// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Addresses of the members of an etcd cluster, in the usual spellings: those of ETCDCTL_ENDPOINTS,
// and torchrun's host:port. With them, how a program is to connect (EtcdAccess).

#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

struct EtcdEndpoint {
  bool is_secure = false;  // https
  std::string host;        // a name or a literal address, without brackets
  int port = 0;
  friend bool operator==(const EtcdEndpoint&, const EtcdEndpoint&) = default;
};

inline constexpr int etcd_port_default = 2379;

// "http://a:2379,https://b,c:2379,[::1]:2379": at least one endpoint. On failure, the reason lists
// every error with the expected form.
Result<std::vector<EtcdEndpoint>> parse_etcd_endpoints(std::string_view text);

// As a user would type it (to_string), and as in HTTP's Host header (host_and_port).
std::string to_string(const EtcdEndpoint& endpoint);
std::string host_and_port(const EtcdEndpoint& endpoint);

// How to reach etcd and as which user, as configured.
struct EtcdAccess {
  std::vector<EtcdEndpoint> endpoints;
  std::string user = {};  // empty: no authentication
  std::string password = {};
  // PEM files for https endpoints; each is optional.
  std::string authorities_file = {};
  std::string certificate_file = {};
  std::string key_file = {};
};

}  // namespace cpprun

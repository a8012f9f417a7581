// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the members of an etcd cluster are asked, in the spellings that people use for that: those
// of ETCDCTL_ENDPOINTS, and torchrun's host:port.

#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

struct EtcdEndpoint {
  bool is_secure = false;  // https
  std::string host;        // a name or a literal address, never in brackets
  int port = 0;
  friend bool operator==(const EtcdEndpoint&, const EtcdEndpoint&) = default;
};

inline constexpr int etcd_port_default = 2379;

// "http://a:2379,https://b,c:2379,[::1]:2379": at least one. Where something is wrong, everything
// that is, each with what it should have been.
Result<std::vector<EtcdEndpoint>> parse_etcd_endpoints(std::string_view text);

// As it would be typed, and as HTTP's Host has it.
std::string to_string(const EtcdEndpoint& endpoint);
std::string host_and_port(const EtcdEndpoint& endpoint);

}  // namespace cpprun

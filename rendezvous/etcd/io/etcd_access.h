// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How to reach etcd and as which user, as configured; and the TLS context, loaded from the
// configured files.

#include <memory>
#include <string>
#include <vector>

#include "proto/result.h"
#include "proto/secure/tls.h"
#include "rendezvous/etcd/etcd_endpoint.h"

namespace cpprun {

struct EtcdAccess {
  std::vector<EtcdEndpoint> endpoints;
  std::string user = {};  // empty: no authentication
  std::string password = {};
  // PEM files for https endpoints; each is optional.
  std::string authorities_file = {};
  std::string certificate_file = {};
  std::string key_file = {};
};

// Null if no endpoint is https; OpenSSL is not loaded then.
Result<std::shared_ptr<TlsClientContext>> open_tls(const EtcdAccess& access);

}  // namespace cpprun

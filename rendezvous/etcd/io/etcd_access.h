// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How etcd is reached and by whom, as people say it; and what TLS needs of that, read from its
// files.

#include <memory>
#include <string>
#include <vector>

#include "proto/result.h"
#include "proto/secure/tls.h"
#include "rendezvous/etcd/etcd_endpoint.h"

namespace cpprun {

struct EtcdAccess {
  std::vector<EtcdEndpoint> endpoints;
  std::string user = {};  // empty: nobody in particular
  std::string password = {};
  // Files in PEM, where an endpoint is https; each may be left out.
  std::string authorities_file = {};
  std::string certificate_file = {};
  std::string key_file = {};
};

// Null where no endpoint is https: OpenSSL is not even opened then.
Result<std::shared_ptr<TlsClientContext>> open_tls(const EtcdAccess& access);

}  // namespace cpprun

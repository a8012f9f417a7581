// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// TLS of a store's connections, with a secret that both ends hold. A build without OpenSSL's
// headers, and a machine without OpenSSL, have none: then the functions say so.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/client/store_error.h"

namespace cpprun {

// One end of a connection, as SecureChannel (proto/secure/tls.h) describes it.
class StoreCipher {
 public:
  virtual ~StoreCipher() = default;
  // Takes bytes received from the peer, and bytes to encrypt for it. False: it has failed.
  virtual bool hear(std::string_view bytes) = 0;
  virtual bool say(std::string_view bytes) = 0;
  virtual std::string take_heard() = 0;
  virtual std::string take_outgoing() = 0;
  virtual bool is_established() const = 0;
  virtual bool is_finished() const = 0;
  virtual std::string reason() const = 0;
};

using MakeCipher = std::function<std::unique_ptr<StoreCipher>()>;

// `secrets` is the text of a secrets file (proto/secure/secret.h). A client uses the first of them,
// and a server accepts all.
StoreResult<MakeCipher> client_ciphers(const std::string& secrets);
StoreResult<MakeCipher> server_ciphers(const std::string& secrets);

// OpenSSL's memory for one connection.
inline constexpr std::size_t store_cipher_bytes = 16 * 1024;

}  // namespace cpprun

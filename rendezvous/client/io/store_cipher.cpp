// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_cipher.h"

#ifdef CPPRUN_STORE_SECURE
#include <utility>

#include "proto/secure/io/openssl_library.h"
#include "proto/secure/secret.h"
#include "proto/secure/tls.h"
#include "rendezvous/io/secret_file.h"
#endif

namespace cpprun {

#ifdef CPPRUN_STORE_SECURE

namespace {

class TlsCipher : public StoreCipher {
 public:
  explicit TlsCipher(const std::shared_ptr<SecureContext>& context) : channel_(context) {}
  bool hear(std::string_view bytes) override { return channel_.hear(bytes); }
  bool say(std::string_view bytes) override { return channel_.say(bytes); }
  std::string take_heard() override { return channel_.take_heard(); }
  std::string take_outgoing() override { return channel_.take_outgoing(); }
  bool is_established() const override { return channel_.is_established(); }
  bool is_finished() const override { return channel_.is_finished(); }
  std::string reason() const override { return channel_.reason(); }

 private:
  SecureChannel channel_;
};

StoreResult<MakeCipher> ciphers(const std::string& text, bool is_server) {
  Result<Secrets> secrets = parse_secrets(text, make_key_memory);
  if (!secrets) return failure(StoreErrorCode::bad_argument, "secret: " + secrets.error().reason);
  LinkSecurity security(std::move(*secrets));
  auto context = is_server ? security.for_hosting() : security.for_dialing();
  if (!context) return failure(StoreErrorCode::unsupported, context.error().reason);
  return [context = *context] { return std::make_unique<TlsCipher>(context); };
}

}  // namespace

StoreResult<MakeCipher> client_ciphers(const std::string& secrets) {
  return ciphers(secrets, /*is_server=*/false);
}
StoreResult<MakeCipher> server_ciphers(const std::string& secrets) {
  return ciphers(secrets, /*is_server=*/true);
}

#else

StoreResult<MakeCipher> client_ciphers(const std::string& /*secrets*/) {
  return failure(StoreErrorCode::unsupported,
                 "a secret needs OpenSSL, without which this library "
                 "was built");
}
StoreResult<MakeCipher> server_ciphers(const std::string& secrets) {
  return client_ciphers(secrets);
}

#endif

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// TLS without sockets: bytes in and bytes out.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "proto/result.h"
#include "proto/secure/secret.h"

struct bio_st;      // OpenSSL's BIO,
struct ssl_ctx_st;  // SSL_CTX
struct ssl_st;      // and SSL

namespace cpprun {

namespace bounds {
// OpenSSL's memory for an established idle connection: measured, and rounded up.
inline constexpr std::size_t secure_channel_bytes = 16 * 1024;
// Its additional memory while a record has arrived in part: the largest record and its header.
inline constexpr std::size_t secure_record_bytes = 17 * 1024;
}  // namespace bounds

struct OpenSsl;

// PEM texts, and the names of their files for messages.
struct TlsIdentity {
  struct Pem {
    std::string text;  // empty: none
    std::string name;
  };
  Pem authorities = {};  // trusted CAs; none: those of the system
  Pem certificate = {};  // the client's, with its chain; none: it presents none
  Pem key = {};          // of that certificate
};

// Shared by all channels of one kind: OpenSSL's settings, and the secrets or certificates.
class SecureContext {
 public:
  // For channels that connect, with that secret.
  static Result<std::shared_ptr<SecureContext>> of_client(const OpenSsl& openssl, Secret secret);
  // For channels that accept, with any of these secrets.
  static Result<std::shared_ptr<SecureContext>> of_server(const OpenSsl& openssl, Secrets secrets);
  // For channels that connect to a server with a certificate. The error names the file and the
  // problem.
  static Result<std::shared_ptr<SecureContext>> of_certificates(const OpenSsl& openssl,
                                                                const TlsIdentity& identity);
  SecureContext(const SecureContext&) = delete;
  SecureContext& operator=(const SecureContext&) = delete;

  const Secrets& secrets() const { return secrets_; }
  const OpenSsl& openssl() const { return *openssl_; }
  // For new channels; established ones stay.
  void replace(Secrets secrets) { secrets_ = std::move(secrets); }

 private:
  friend class SecureChannel;
  enum class Kind { client, server, client_of_certificate };
  struct Free {
    const OpenSsl* openssl;
    void operator()(ssl_ctx_st* settings) const;
  };
  SecureContext(const OpenSsl& openssl, Kind kind, Secrets secrets);
  static Result<std::shared_ptr<SecureContext>> of_secrets(const OpenSsl& openssl, Kind kind,
                                                           Secrets secrets);

  std::shared_ptr<const OpenSsl> openssl_;
  Kind kind_;
  Secrets secrets_;
  std::unique_ptr<ssl_ctx_st, Free> settings_;
};

// One end of a TLS connection. What the peer has to prove depends on the context:
//
// Between two cppruns both sides must hold the same secret: TLS 1.3 (RFC 8446) with the secret as
// external pre-shared key and ephemeral X25519 keys, so that a secret that leaks later does not
// reveal earlier traffic. No certificates, no session resumption.
//
// With certificates it is the client of a foreign server, whose certificate has to be trusted and
// has to match the host name. The server may ask for a client certificate.
//
// The peer has proved itself before data is exchanged. Data passed to say() earlier is queued.
class SecureChannel {
 public:
  // `host` is that of a server with a certificate, as requested: a name or an address.
  explicit SecureChannel(std::shared_ptr<SecureContext> context, std::string host = {});
  SecureChannel(const SecureChannel&) = delete;
  SecureChannel& operator=(const SecureChannel&) = delete;

  // Takes bytes received from the peer. False: the channel has failed, and `reason` says why. There
  // may still be something to send, such as an alert.
  bool hear(std::string_view bytes);
  // Encrypts bytes for the peer. False: as above.
  bool say(std::string_view bytes);
  // Announces the end of the data.
  void finish();

  // Received plain text, and bytes to send to the peer. Both calls clear what they return.
  std::string take_heard() { return std::exchange(heard_, {}); }
  std::string take_outgoing();

  // For an established channel: OpenSSL's memory for it.
  std::size_t bytes_held() const;

  bool is_established() const { return is_established_; }
  // The peer has announced the end of its data.
  bool is_finished() const { return is_finished_; }
  // For an established channel: the id of the shared secret, and whether the context still has that
  // secret.
  const std::string& secret_id() const { return secret_id_; }
  bool is_valid_still() const;
  // Why it failed, as a clause about the peer; empty if it has not.
  const std::string& reason() const { return reason_; }

 private:
  friend struct PskCallbacks;
  struct Free {
    const OpenSsl* openssl;
    void operator()(ssl_st* connection) const;
  };

  bool expect_host() const;
  bool shake_hands();
  bool establish();
  void forget_key() const;
  bool read();
  bool write(std::string_view bytes);
  bool is_only_waiting(int result);
  bool end(std::string because);
  std::string why(unsigned long error) const;
  std::string why_refused(int number) const;
  std::string why_not_taken(unsigned long error) const;
  std::string why_not_trusted(unsigned long error) const;

  const std::shared_ptr<SecureContext> context_;
  const OpenSsl& openssl_;
  const std::string host_;
  const std::unique_ptr<ssl_st, Free> ssl_;
  bio_st* incoming_ = nullptr;  // both owned by ssl_
  bio_st* outgoing_ = nullptr;
  std::string heard_;
  std::string unsaid_;  // data to send before the handshake is done
  std::string reason_;
  bool is_established_ = false;
  bool is_finished_ = false;

  std::string secret_id_;                 // in use, or offered and rejected
  std::string identity_;                  // its identity as the client sends it
  std::shared_ptr<const Key> found_key_;  // the key found for it
  bool was_offered_ = false;              // the peer has named a secret
  bool is_known_ = false;                 // and it is one of this side's
};

// The reply of a peer without a secret to a TLS client: an alert, "unknown_psk_identity".
inline constexpr std::string_view no_secret_here{"\x15\x03\x03\x00\x02\x02\x73", 7};

}  // namespace cpprun

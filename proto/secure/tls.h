// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// TLS without sockets, bytes in and bytes out: SecureChannel between two holders of one secret, and
// TlsClientChannel to a server with a certificate.

#include <memory>
#include <string>
#include <string_view>

#include "proto/result.h"
#include "proto/secure/secret.h"

namespace cpprun {

struct OpenSsl;

// Shared by all channels of one kind: OpenSSL's settings and the secrets.
class SecureContext {
 public:
  // For channels that connect, with that secret.
  static Result<std::shared_ptr<SecureContext>> of_client(const OpenSsl& openssl, Secret secret);
  // For channels that accept, with any of these secrets.
  static Result<std::shared_ptr<SecureContext>> of_server(const OpenSsl& openssl, Secrets secrets);
  ~SecureContext();
  SecureContext(const SecureContext&) = delete;
  SecureContext& operator=(const SecureContext&) = delete;

  const Secrets& secrets() const;
  const OpenSsl& openssl() const;
  // For new channels; established ones stay.
  void replace(Secrets secrets);

 private:
  friend class SecureChannel;
  struct Inside;
  explicit SecureContext(std::unique_ptr<Inside> inside);
  static Result<std::shared_ptr<SecureContext>> make(const OpenSsl& openssl, Secrets secrets,
                                                     bool is_server);
  std::unique_ptr<Inside> inside_;
};

// One end of a connection on which both sides must hold the same secret: TLS 1.3 (RFC 8446) with
// the secret as external pre-shared key and ephemeral X25519 keys, so that a secret that leaks
// later does not reveal earlier traffic. No certificates, no session resumption.
//
// Both sides prove that they hold the secret before data is exchanged. Data passed to say() earlier
// is queued.
class SecureChannel {
 public:
  explicit SecureChannel(const std::shared_ptr<SecureContext>& context);
  ~SecureChannel();
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
  std::string take_heard();
  std::string take_outgoing();

  // For an established channel: OpenSSL's memory for it.
  std::size_t bytes_held() const;

  bool is_established() const;
  // The peer has announced the end of its data.
  bool is_finished() const;
  // For an established channel: the id of the shared secret, and whether the context still has that
  // secret.
  const std::string& secret_id() const;
  bool is_valid_still() const;
  // Why it failed, as a clause about the peer; empty if it has not.
  const std::string& reason() const;

 private:
  friend class SecureContext;
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// The reply of a peer without a secret to a TLS client: an alert, "unknown_psk_identity".
inline constexpr std::string_view no_secret_here{"\x15\x03\x03\x00\x02\x02\x73", 7};

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

// Shared by all connections of one kind.
class TlsClientContext {
 public:
  // The error names the file and the problem.
  static Result<std::shared_ptr<TlsClientContext>> make(const OpenSsl& openssl,
                                                        const TlsIdentity& identity);
  ~TlsClientContext();
  TlsClientContext(const TlsClientContext&) = delete;
  TlsClientContext& operator=(const TlsClientContext&) = delete;

 private:
  friend class TlsClientChannel;
  struct Inside;
  explicit TlsClientContext(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

// The client end of a TLS connection to a foreign server: the server's certificate has to be
// trusted and has to match the host name. The server may ask for a client certificate. Bytes in,
// bytes out, like SecureChannel, which is for links between cppruns.
class TlsClientChannel {
 public:
  // `host` as requested: a name or an address.
  TlsClientChannel(const std::shared_ptr<TlsClientContext>& context, const std::string& host);
  ~TlsClientChannel();
  TlsClientChannel(const TlsClientChannel&) = delete;
  TlsClientChannel& operator=(const TlsClientChannel&) = delete;

  // Takes bytes received from the server. False: the channel has failed, and `reason` says why.
  // There may still be something to send, such as an alert.
  bool hear(std::string_view bytes);
  // Encrypts bytes for the server; queued until the server is authenticated. False: as above.
  bool say(std::string_view bytes);

  // Received plain text, and bytes to send to the server. Both calls clear what they return.
  std::string take_heard();
  std::string take_outgoing();

  // The server is authenticated.
  bool is_established() const;
  // The server has announced the end of its data.
  bool is_finished() const;
  // Why it failed, as a clause about the server; empty if it has not.
  const std::string& reason() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace cpprun

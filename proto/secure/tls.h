// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// TLS, bytes in and bytes out: SecureChannel between two holders of one secret, and
// TlsClientChannel to a server with a certificate.

#include <memory>
#include <string>
#include <string_view>

#include "proto/result.h"
#include "proto/secure/secret.h"

namespace cpprun {

struct OpenSsl;

// What all channels of one kind share: OpenSSL's settings, and the secrets.
class SecureContext {
 public:
  // For channels that begin a conversation, with that secret.
  static Result<std::shared_ptr<SecureContext>> of_client(const OpenSsl& openssl, Secret secret);
  // For channels that answer, with any of these.
  static Result<std::shared_ptr<SecureContext>> of_server(const OpenSsl& openssl, Secrets secrets);
  ~SecureContext();
  SecureContext(const SecureContext&) = delete;
  SecureContext& operator=(const SecureContext&) = delete;

  const Secrets& secrets() const;
  const OpenSsl& openssl() const;
  // From here on; channels that are established stay.
  void replace(Secrets secrets);

 private:
  friend class SecureChannel;
  struct Inside;
  explicit SecureContext(std::unique_ptr<Inside> inside);
  static Result<std::shared_ptr<SecureContext>> make(const OpenSsl& openssl, Secrets secrets,
                                                     bool is_server);
  std::unique_ptr<Inside> inside_;
};

// One end of a connection on which both must hold the same secret: TLS 1.3 (RFC 8446) with that
// secret as external pre-shared key and fresh X25519 keys, so that whoever learns the secret later
// cannot read what was said before. Bytes in, bytes out: no socket, no certificate, no session that
// could be resumed.
//
// Both prove that they hold it before either says anything. What is said earlier waits.
class SecureChannel {
 public:
  explicit SecureChannel(std::shared_ptr<SecureContext> context);
  ~SecureChannel();
  SecureChannel(const SecureChannel&) = delete;
  SecureChannel& operator=(const SecureChannel&) = delete;

  // Those bytes came from the other side. False: it is over, and `reason` says why. Whatever it was
  // there may be something to send, an alert for instance.
  bool hear(std::string_view bytes);
  // Those bytes are for the other side. False: as above.
  bool say(std::string_view bytes);
  // Says that nothing follows.
  void finish();

  // What the other side said, in clear; and what is to be sent to it. Both are empty afterwards.
  std::string take_heard();
  std::string take_outgoing();

  // Of an established one: what OpenSSL keeps for it.
  std::size_t bytes_held() const;

  bool is_established() const;
  // The other side has said that nothing follows.
  bool is_finished() const;
  // Of a channel that is established: the id of the secret that both hold; and whether its context
  // has that secret still.
  const std::string& secret_id() const;
  bool is_valid_still() const;
  // Why it is over, as a clause about the other side; empty: it is not.
  const std::string& reason() const;

 private:
  friend class SecureContext;
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// The answer of whoever holds no secret to one that wants TLS: an alert, "unknown_psk_identity".
inline constexpr std::string_view no_secret_here{"\x15\x03\x03\x00\x02\x02\x73", 7};

// Texts of PEM files, and how these are called.
struct TlsIdentity {
  struct Pem {
    std::string text;  // empty: there is none
    std::string name;
  };
  Pem authorities = {};  // who may vouch; none: those that this machine trusts
  Pem certificate = {};  // of ours, with those that vouch for it; none: it shows none
  Pem key = {};          // that belongs to it
};

// What all connections of one kind share.
class TlsClientContext {
 public:
  // An error names the file, and what is wrong with it.
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

// The asking end of a TLS connection to somebody else's server, which shows a certificate: whose it
// is has to be vouched for, and it has to be for the name by which it was asked. It may want to see
// one of ours. Bytes in, bytes out, as SecureChannel, which is for links of our own.
class TlsClientChannel {
 public:
  // `host` as it was asked for: a name, or an address.
  TlsClientChannel(std::shared_ptr<TlsClientContext> context, const std::string& host);
  ~TlsClientChannel();
  TlsClientChannel(const TlsClientChannel&) = delete;
  TlsClientChannel& operator=(const TlsClientChannel&) = delete;

  // Those bytes came from the server. False: it is over, and `reason` says why. Whatever it was
  // there may be something to send, an alert for instance.
  bool hear(std::string_view bytes);
  // Those bytes are for the server; what is said before it has proven itself waits. False: as
  // above.
  bool say(std::string_view bytes);

  // What the server said, in clear; and what is to be sent to it. Both are empty afterwards.
  std::string take_heard();
  std::string take_outgoing();

  // The server has proven who it is.
  bool is_established() const;
  // It has said that nothing follows.
  bool is_finished() const;
  // Why it is over, as a clause about the server; empty: it is not.
  const std::string& reason() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace cpprun

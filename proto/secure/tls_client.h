// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The asking end of a TLS connection to somebody else's server, which shows a certificate: whose it
// is has to be vouched for, and it has to be for the name by which it was asked. It may want to see
// one of ours. Bytes in, bytes out, as SecureChannel, which is for links of our own.

#include <memory>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

struct OpenSsl;

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

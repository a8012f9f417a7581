// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who asks etcd: a user with a password, for which etcd gives out a token that it forgets after a
// while, and when a member is begun anew.

#include <optional>
#include <string>

#include "rendezvous/etcd/etcd_failure.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun::etcd {

class Credentials {
 public:
  // Without a user: whoever asks says nothing of himself.
  explicit Credentials(std::string user = {}, std::string password = {})
      : user_(std::move(user)), password_(std::move(password)) {}

  // What is to be asked before anything else; nothing: one may go on.
  std::optional<Authenticate> needed() const;
  // With every request; empty: nothing.
  const std::string& token() const { return token_; }

  void hear(const Authenticated& given) { token_ = given.token; }
  // A token was asked for in vain. True: one may go on without, for etcd knows no users.
  bool hear(const Failure& failed);
  // A request with that token has failed. True: it may be asked once more, after needed().
  bool may_ask_again(const Failure& failed, const std::string& used);

 private:
  std::string user_;
  std::string password_;
  std::string token_;
  bool is_unknown_ = false;  // etcd has no users
};

}  // namespace cpprun::etcd

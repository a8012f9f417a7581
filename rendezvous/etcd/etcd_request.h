// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What etcd is asked and what it answers, as values: the few of its calls that are made here, how
// they fail, and who asks. How they look as JSON is codec.h's matter.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/etcd/etcd_endpoint.h"

namespace cpprun::etcd {

// Chosen by whoever asks for it, so that it is known even where the answer was lost.
using LeaseId = std::int64_t;
inline constexpr LeaseId no_lease = 0;
// etcd counts every change of anything by one.
using Revision = std::int64_t;

// --- requests ------------------------------------------------------------------------------------

struct Grant {
  LeaseId lease = no_lease;
  std::int64_t ttl_seconds = 0;
  friend bool operator==(const Grant&, const Grant&) = default;
};
struct KeepAlive {
  LeaseId lease = no_lease;
  friend bool operator==(const KeepAlive&, const KeepAlive&) = default;
};
// Its keys go with it.
struct Revoke {
  LeaseId lease = no_lease;
  friend bool operator==(const Revoke&, const Revoke&) = default;
};

// That this of that key is that. A key that is not there was created and changed at revision 0.
struct Compare {
  enum class Target { created, changed, value };
  std::string key;
  Target target = Target::created;
  Revision revision = 0;   // where it is one
  std::string value = {};  // where that is compared
  friend bool operator==(const Compare&, const Compare&) = default;
};
struct Put {
  std::string key;
  std::string value;
  LeaseId lease = no_lease;
  friend bool operator==(const Put&, const Put&) = default;
};
// One key, or from one up to before another.
struct Read {
  std::string key;
  std::string end = {};    // empty: that key alone
  std::int64_t limit = 0;  // 0: none
  friend bool operator==(const Read&, const Read&) = default;
};
struct Delete {
  std::string key;
  friend bool operator==(const Delete&, const Delete&) = default;
};
using Operation = std::variant<Put, Read, Delete>;
// All or nothing. One that only reads is linearizable: no member answers it without a quorum.
struct Transaction {
  std::vector<Compare> compares = {};
  std::vector<Operation> success = {};
  std::vector<Operation> otherwise = {};
  friend bool operator==(const Transaction&, const Transaction&) = default;
};
struct Authenticate {
  std::string user;
  std::string password;
  friend bool operator==(const Authenticate&, const Authenticate&) = default;
};

// Which alarms are raised, as the status of one member has them: unlike a request for alarms it
// costs etcd no entry in its log. While NOSPACE is raised, etcd refuses every change.
struct GetAlarms {
  friend bool operator==(const GetAlarms&, const GetAlarms&) = default;
};

using Request = std::variant<Grant, KeepAlive, Revoke, Transaction, Authenticate, GetAlarms>;

// --- answers -------------------------------------------------------------------------------------

struct Header {
  std::uint64_t cluster = 0;
  std::uint64_t member = 0;
  Revision revision = 0;
  // Of Raft: how often etcd has chosen a leader of its own, as the member that answers has applied
  // it. After a linearizable read it is the present one.
  std::uint64_t term = 0;
  friend bool operator==(const Header&, const Header&) = default;
};

struct KeyValue {
  std::string key;
  std::string value;
  Revision created = 0;
  Revision changed = 0;
  LeaseId lease = no_lease;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

struct Granted {
  Header header;
  LeaseId lease = no_lease;
  std::int64_t ttl_seconds = 0;  // more than was asked for, where that is too little for etcd
  friend bool operator==(const Granted&, const Granted&) = default;
};
struct KeptAlive {
  Header header;
  LeaseId lease = no_lease;
  std::int64_t ttl_seconds = 0;  // 0: there is no such lease any more
  friend bool operator==(const KeptAlive&, const KeptAlive&) = default;
};
struct Revoked {
  Header header;
  friend bool operator==(const Revoked&, const Revoked&) = default;
};

// Of a Put or a Delete it is empty.
struct Outcome {
  std::vector<KeyValue> pairs = {};
  bool has_more = false;  // than the limit
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
struct Decided {
  Header header;
  bool succeeded = false;  // all comparisons were true, or there were none
  std::vector<Outcome> outcomes = {};
  friend bool operator==(const Decided&, const Decided&) = default;
};
struct Authenticated {
  std::string token;
  friend bool operator==(const Authenticated&, const Authenticated&) = default;
};

struct Alarms {
  bool has_no_space = false;  // of any member
  bool is_corrupt = false;
  friend bool operator==(const Alarms&, const Alarms&) = default;
};

using Answer = std::variant<Granted, KeptAlive, Revoked, Decided, Authenticated, Alarms>;

// What can go wrong when etcd is asked, told apart by what follows from it.
struct Failure {
  enum class Kind {
    unreachable,      // nothing was asked: no connection, or no TLS
    silent,           // it was asked, and has not answered: what was asked for may happen still
    unavailable,      // it says that it cannot, or not now; that may happen still as well
    no_space,         // it takes nothing more before somebody has made room
    unauthenticated,  // the token is old, or there is none
    forbidden,        // the user may not, or is not who he says
    no_such_lease,
    lease_exists,
    no_authentication,  // it was asked for a token and gives none out
    rejected,           // it does not want to, and would not the next time
    nonsense            // what answers is no etcd
  };
  Kind kind = Kind::unreachable;
  std::string said = {};  // a clause: its words, or what we have seen of it
  friend bool operator==(const Failure&, const Failure&) = default;
};

// Whether another member may do better.
bool is_of_this_member(Failure::Kind kind);
// Whether what was asked for may have been done, or may be done yet.
bool may_have_happened(Failure::Kind kind);

// What gRPC's code and etcd's words for it mean.
Failure::Kind kind_of(int code, std::string_view words);

// "etcd at http://a:2379 has no room left (…): compact …". A sentence for people: who was asked,
// what was answered, and what would help.
std::string describe(const Failure& failure, const EtcdEndpoint& endpoint);

// Who asks etcd: a user with a password, for which etcd gives out a token that it forgets after a
// while, and when a member is begun anew.
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

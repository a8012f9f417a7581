// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How to reach etcd, and requests to it and its replies as values: the few calls used here, their
// failures, and authentication. codec.h has their JSON form.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/result.h"

namespace cpprun {

// A member of an etcd cluster, in the usual spellings: those of ETCDCTL_ENDPOINTS, and torchrun's
// host:port.
struct EtcdEndpoint {
  bool is_secure = false;  // https
  std::string host;        // a name or a literal address, without brackets
  int port = 0;
  friend bool operator==(const EtcdEndpoint&, const EtcdEndpoint&) = default;
};

inline constexpr int etcd_port_default = 2379;

// "http://a:2379,https://b,c:2379,[::1]:2379": at least one endpoint. On failure, the reason lists
// every error with the expected form.
Result<std::vector<EtcdEndpoint>> parse_etcd_endpoints(std::string_view text);

// As a user would type it (to_string), and as in HTTP's Host header (host_and_port).
std::string to_string(const EtcdEndpoint& endpoint);
std::string host_and_port(const EtcdEndpoint& endpoint);

// How to reach etcd and as which user, as configured.
struct EtcdAccess {
  std::vector<EtcdEndpoint> endpoints;
  std::string user = {};  // empty: no authentication
  std::string password = {};
  // PEM files for https endpoints; each is optional.
  std::string authorities_file = {};
  std::string certificate_file = {};
  std::string key_file = {};
};

}  // namespace cpprun

namespace cpprun::etcd {

// Chosen by the client, so that it is known even if the reply is lost.
using LeaseId = std::int64_t;
inline constexpr LeaseId no_lease = 0;
// etcd increments it with every change.
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
// Also deletes the keys bound to it.
struct Revoke {
  LeaseId lease = no_lease;
  friend bool operator==(const Revoke&, const Revoke&) = default;
};

// Tests one property of a key for equality. A missing key has the revisions 0.
struct Compare {
  enum class Target { created, changed, value };
  std::string key;
  Target target = Target::created;
  Revision revision = 0;   // for Target::created and changed
  std::string value = {};  // for Target::value
  friend bool operator==(const Compare&, const Compare&) = default;
};
struct Put {
  std::string key;
  std::string value;
  LeaseId lease = no_lease;
  friend bool operator==(const Put&, const Put&) = default;
};
// One key, or the range from `key` up to and excluding `end`.
struct Read {
  std::string key;
  std::string end = {};    // empty: only that key
  std::int64_t limit = 0;  // 0: none
  friend bool operator==(const Read&, const Read&) = default;
};
struct Delete {
  std::string key;
  friend bool operator==(const Delete&, const Delete&) = default;
};
using Operation = std::variant<Put, Read, Delete>;
// Atomic. A read-only one is linearizable: a member needs a quorum to answer it.
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

// The raised alarms, read from the status of one member: unlike a request for alarms, that costs
// etcd no log entry. While NOSPACE is raised, etcd rejects every change.
struct GetAlarms {
  friend bool operator==(const GetAlarms&, const GetAlarms&) = default;
};

using Request = std::variant<Grant, KeepAlive, Revoke, Transaction, Authenticate, GetAlarms>;

// --- replies -------------------------------------------------------------------------------------

struct Header {
  std::uint64_t cluster = 0;
  std::uint64_t member = 0;
  Revision revision = 0;
  // The Raft term, as applied by the member that replies. It increases whenever etcd elects a
  // leader of its own. After a linearizable read it is current.
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
  std::int64_t ttl_seconds = 0;  // more than requested, if that was below etcd's minimum
  friend bool operator==(const Granted&, const Granted&) = default;
};
struct KeptAlive {
  Header header;
  LeaseId lease = no_lease;
  std::int64_t ttl_seconds = 0;  // 0: the lease no longer exists
  friend bool operator==(const KeptAlive&, const KeptAlive&) = default;
};
struct Revoked {
  Header header;
  friend bool operator==(const Revoked&, const Revoked&) = default;
};

// Empty for a Put or a Delete.
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
  friend bool operator==(const Alarms&, const Alarms&) = default;
};

using Answer = std::variant<Granted, KeptAlive, Revoked, Decided, Authenticated, Alarms>;

// Failures of a request, classified by their consequences.
struct Failure {
  enum class Kind {
    unreachable,      // nothing was sent: no connection, or no TLS
    silent,           // sent, but no reply: the request may still take effect
    unavailable,      // etcd cannot serve it now; it may still take effect
    no_space,         // rejects all changes until space is freed
    unauthenticated,  // the token is missing or outdated
    forbidden,        // no permission, or wrong password
    no_such_lease,
    lease_exists,
    no_authentication,  // a token was requested, but authentication is off
    rejected,           // rejected, and would be again
    nonsense            // the peer is not an etcd
  };
  Kind kind = Kind::unreachable;
  std::string said = {};  // a clause: etcd's message, or what was observed
  friend bool operator==(const Failure&, const Failure&) = default;
};

// Whether another member might succeed.
bool is_of_this_member(Failure::Kind kind);
// Whether the request may have taken effect, or still may.
bool may_have_happened(Failure::Kind kind);

// Classifies a gRPC code and etcd's message.
Failure::Kind kind_of(int code, std::string_view words);

// "etcd at http://a:2379 is out of space (…); compact …". A sentence for the user: the member, the
// failure, and a hint.
std::string describe(const Failure& failure, const EtcdEndpoint& endpoint);

// The user that sends the requests. etcd issues a token for the user's password. It forgets the
// token after a while, and when a member restarts.
class Credentials {
 public:
  // Without a user, requests carry no token.
  explicit Credentials(std::string user = {}, std::string password = {})
      : user_(std::move(user)), password_(std::move(password)) {}

  // The request that has to come first; empty: none.
  std::optional<Authenticate> needed() const;
  // To be sent with every request; empty: none.
  const std::string& token() const { return token_; }

  void hear(const Authenticated& given) { token_ = given.token; }
  // Getting a token failed. True: continue without one, since etcd has authentication off.
  bool hear(const Failure& failed);
  // A request with the token `used` failed. True: repeat it once, after needed().
  bool may_ask_again(const Failure& failed, const std::string& used);

 private:
  std::string user_;
  std::string password_;
  std::string token_;
  bool is_unknown_ = false;  // etcd has authentication off
};

}  // namespace cpprun::etcd

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A log of what the clients of one store have sent and what was decided. A process that reads it
// arrives at the same store and the same answers. It is written by the process that decides, and
// read by the process that takes over if that one is lost: from a file, or continuously by a
// standby.
//
// The log contains not the requests but the bytes of each client as they were read, followed by how
// many of them were decided as complete requests. So the order is that in which the store was
// asked, a request that has arrived in part is there in part, and nothing has to be encoded again.
//
// A log may begin with an image, which is the contents of a store at some moment: records of
// values, waits and clients, as if they had just been created. A record is a byte that names its
// kind and the fields of that kind (store_log.cpp has the table): numbers in LEB128, bytes after
// their length.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/link/binary_frame.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/session.h"

namespace cpprun {

struct StoreRecord {
  enum class Kind : std::uint8_t {
    // --- events ---
    opened = 1,     // that stream of that node is that client; key: its address
    read = 2,       // that client has sent these bytes
    decided = 3,    // the next `count` of them are complete requests
    listed = 4,     // the next `count` of them are a request that was answered with these bytes
    taken = 5,      // the node has taken all of that stream before `place`
    closed = 6,     // that client is gone
    over = 7,       // no side will refer to that stream again
    abandoned = 8,  // that client no longer waits
    renamed = 9,    // that client is `place` from now on; count 1: and no other client is left
    // --- state ---
    value = 16,     // that key has that value
    queued = 17,    // the next entry of that queue
    waits = 18,     // that client is the next to wait for that key; count 1: at a barrier
    watches = 19,   // that client watches that key
    owed = 20,      // that client was woken for an entry of that queue, and has not taken it
    session = 21,   // the state of that client's conversation; key: its inbox, bytes: its outbox
    stream = 22,    // of a node: what was sent and not taken, from place `count` on
    numbered = 23,  // the greatest number of a stream that node has opened; key: its address
  };
  Kind kind = Kind::read;
  ConnectionId client{};  // assigned by the writer, each only once
  GroupRank node{};
  link::StreamId stream{};
  std::uint64_t place = 0;
  std::uint64_t count = 0;
  std::uint64_t flags = 0;
  std::string_view key = {};
  std::string_view bytes = {};
  friend bool operator==(const StoreRecord&, const StoreRecord&) = default;
};

std::string bytes_of(const PeerAddress& peer);
std::optional<PeerAddress> peer_of(std::string_view bytes);

// Writes the records. They can be taken in pieces that are cut anywhere. If there is no memory for
// a record, is_lost() returns true, and everything after it is void.
class StoreLog : public StoreJournal {
 public:
  void add(const StoreRecord& record) noexcept;

  void read(ConnectionId client, std::string_view bytes) noexcept override;
  void decided(ConnectionId client, std::size_t count) noexcept override;
  void listed(ConnectionId client, std::size_t count, std::string_view reply) noexcept override;
  void abandoned(ConnectionId client) noexcept override;
  void closed(ConnectionId client) noexcept override;
  void lost() noexcept override { is_lost_ = true; }

  // Bytes that were not taken yet.
  std::size_t size() const { return bytes_.size(); }
  bool has_more() const { return !bytes_.empty() || decided_ > 0; }
  // All bytes that were not taken yet.
  std::string take() noexcept;
  bool is_lost() const { return is_lost_; }
  // The reader starts from something else: what is written from now on counts again.
  void begin_anew() noexcept { is_lost_ = false; }
  // Bytes written in total, up to now.
  std::uint64_t written() const noexcept {
    write_decisions();
    return written_;
  }

 private:
  void write(const StoreRecord& record) const noexcept;
  void write_decisions() const noexcept;

  // Mutable: the last decision may still grow, so queries write it out first. Callers cannot see
  // that.
  mutable std::string bytes_;
  mutable std::uint64_t written_ = 0;
  // Consecutive decided requests form one record.
  ConnectionId decider_{};
  mutable std::uint64_t decided_ = 0;
  mutable bool is_lost_ = false;
};

// Reads the records, from pieces that were cut anywhere.
class StoreLogReader {
 public:
  void hear(std::string_view bytes);
  // The next record; nothing if it is incomplete. An error if it is invalid; then everything after
  // it is invalid, too. The views are valid until the next call of either function.
  Result<std::optional<StoreRecord>> next();
  // The next record is of that kind, even if it is incomplete.
  bool comes(StoreRecord::Kind kind) const {
    return at_ < bytes_.size() && bytes_[at_] == static_cast<char>(kind);
  }
  // Bytes that were received and are no complete record yet.
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the clients of one store have said and what was decided of it, as bytes: whoever reads them
// comes to the same store, and to the same answers. It is written by the process that decides, and
// read by the one that goes on where that is lost: out of a file, or as it stands by.
//
// Not the requests are written down but the bytes of each client as they were read, and behind them
// how many of them were decided as whole requests. So the order is the one in which the store was
// asked, a request that has come in part is there in part, and nothing has to be encoded anew.
//
// A log may begin with what a store held at some moment (an image): records of values, waits and
// clients, as if they had just come into being. A record is a byte that names its kind and the
// fields of that kind (store_log.cpp has the table): numbers in LEB128, bytes behind their length.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/ids.h"
#include "proto/link/binary_frame.h"
#include "proto/result.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/session.h"

namespace cpprun {

struct StoreRecord {
  enum class Kind : std::uint8_t {
    // --- what has happened ---
    opened = 1,     // that stream of that node is that client; key: its address
    read = 2,       // that client has said these bytes
    decided = 3,    // of them the next `count`, which are whole requests
    listed = 4,     // the next `count` are a request that was answered with these bytes
    taken = 5,      // the node has taken all of that stream before `place`
    closed = 6,     // that client is gone
    over = 7,       // nobody will speak of that stream any more
    abandoned = 8,  // that client waits no longer
    renamed = 9,    // that client is called `place` from here on; count 1: and nobody else is left
    // --- what there is ---
    value = 16,    // that key has that value
    queued = 17,   // the next entry of that queue
    waits = 18,    // that client is the next to wait for that key; count 1: at a barrier
    watches = 19,  // and is told of its changes
    owed = 20,     // it was woken for an entry of that queue, and has not taken it
    session = 21,  // how far that client's conversation has come; key: its inbox, bytes: its outbox
    stream = 22,   // of a node: what was said and not taken, from place `count` on
    numbered = 23,  // the greatest number of a stream that node has opened; key: its address
  };
  Kind kind = Kind::read;
  ConnectionId client{};  // a number of the writer's, which gives each once
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

// Writes the records, to be taken in pieces that may be cut anywhere. Where there is no memory for
// one it says so, and nothing behind it counts.
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
  // All of them.
  std::string take() noexcept;
  bool is_lost() const { return is_lost_; }
  // Whoever reads it has something else to begin with: what comes now counts again.
  void begin_anew() noexcept { is_lost_ = false; }
  // How much was ever written, up to now.
  std::uint64_t written() const noexcept {
    settle();
    return written_;
  }

 private:
  void write(const StoreRecord& record) const noexcept;
  void settle() const noexcept;

  // What was decided last may still become longer; to be asked changes nothing that can be seen.
  mutable std::string bytes_;
  mutable std::uint64_t written_ = 0;
  // Requests that were decided one after the other are one record.
  ConnectionId decider_{};
  mutable std::uint64_t decided_ = 0;
  mutable bool is_lost_ = false;
};

// Reads them again, out of pieces that were cut anywhere.
class StoreLogReader {
 public:
  void hear(std::string_view bytes);
  // The next record; nothing: it has not come in full. An error: it is none, and nothing behind it
  // is. The views are good until the next call of either.
  Result<std::optional<StoreRecord>> next();
  // One of that kind is next, be it that it has not come in full.
  bool comes(StoreRecord::Kind kind) const {
    return at_ < bytes_.size() && bytes_[at_] == static_cast<char>(kind);
  }
  // Bytes that were heard and are no whole record yet.
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace cpprun

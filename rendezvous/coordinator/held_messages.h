// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Queues of delayed messages: to nodes, until the decisions before them are durable (CommitQueue),
// and from nodes, until their job can process them (PendingMessages).

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/job/coordinator_actions.h"

namespace cpprun {

// What confirms that something is kept, each with its own sequence numbers: records of jobs, which
// are on disk or in etcd, and logs of stores, which are on disk or, with the records, at standbys.
enum class CommitSource : std::uint8_t { record, log };

// A commit queue. Messages to nodes, and replies to operators' commands, wait until the decisions
// before them are durable: on disk (--state-sync) or replicated to another cpprund. All messages
// keep their order across jobs, together with the store's replies that travel through links.
class CommitQueue {
 public:
  // Bytes for workers, sent through a node's link.
  struct Frame {
    LinkId link;
    std::string bytes;
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  using Word = std::variant<coordinator::Action, Frame>;

  // Messages held from now on also wait for this number. 0 adds nothing to wait for.
  void wait_for(CommitSource source, std::uint64_t number);
  // Whether new messages have to wait.
  bool holds() const { return is_awaited(awaited_) || !held_.empty(); }
  // Returns true if the message was queued, and false if the caller has to send it now.
  bool hold(const coordinator::Action& action);
  bool hold(LinkId link, std::string_view frame);
  // All numbers up to `through` are durable.
  void kept(CommitSource source, std::uint64_t through);
  // Removes and returns the next message that may be sent now. Nothing if there is none.
  std::optional<Word> next();
  // Bytes of frames held for that link.
  std::size_t bytes_for(LinkId link) const;
  // Whether a held message reports to that link how its job ended. If the link closes now, its node
  // has not received that.
  bool holds_end_for(LinkId link) const { return ends_.contains(link); }
  // Discards all messages. Returns the replies to commands: the clients still wait for them, but
  // what the replies report is no longer true.
  std::vector<coordinator::Answered> drop_all();

 private:
  using Numbers = std::array<std::uint64_t, 2>;
  struct Held {
    Numbers numbers{};
    Word word;
  };
  bool is_awaited(const Numbers& numbers) const;
  bool hold(Word word);

  Numbers awaited_{};
  Numbers kept_{};
  std::deque<Held> held_;
  std::unordered_map<LinkId, std::size_t> bytes_;  // bytes of frames, by link
  std::unordered_set<LinkId> ends_;                // links for which a Finish is held
};

// Messages that nodes send after their join, kept until they can be processed: their job's store is
// still being opened, or this coordinator is about to lead. A reconnecting node repeats what may
// have been lost only once, so these messages must not be dropped.
class PendingMessages {
 public:
  // Starts to keep messages of that link. Keeps any it already has.
  void expect(LinkId link) { words_.try_emplace(link); }
  // Returns false if the link, or all links together, exceed the limit: no normal agent sends that
  // much. Ignores messages of links that are not expected, and heartbeats, which matter only at the
  // moment they arrive.
  bool keep(LinkId link, const link::Message& message);
  std::vector<link::Message> take(LinkId link);
  void forget(LinkId link) { (void)take(link); }

  std::size_t size() const { return words_.size(); }

 private:
  struct Kept {
    std::vector<link::Message> messages;
    std::size_t bytes = 0;
  };

  std::unordered_map<LinkId, Kept> words_;
  std::size_t bytes_ = 0;  // the encoded size of all messages
};

}  // namespace cpprun

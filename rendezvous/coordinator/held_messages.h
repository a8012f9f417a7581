// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Messages that wait: those to nodes until what was decided before them cannot be lost (HeldWords),
// those of nodes until they can be heard (EarlyWords).

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

#include "proto/ids.h"
#include "proto/link/message.h"
#include "rendezvous/job/coordinator_actions.h"

namespace cpprun {

// Who numbers what it has been given, each for itself.
enum class Keeping : std::uint8_t { record, log, standby, etcd };

// What nodes are told later, and whoever has given an order: when what was decided before it cannot
// be lost any more, because it is on a disk (--state-sync), or another cpprund has it. All words
// keep their order, of whichever job they are, and so do the answers of stores that are said
// through links.
class HeldWords {
 public:
  // What workers are told through that link.
  struct Frame {
    LinkId link;
    std::string bytes;
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  using Word = std::variant<coordinator::Action, Frame>;

  // What is said from now on waits for that number; 0: for nothing more than before.
  void wait_for(Keeping keeping, std::uint64_t number);
  // There is something to wait for.
  bool holds() const { return is_awaited(awaited_) || !held_.empty(); }
  // True: it is said later. False: now, by whoever asks.
  bool hold(const coordinator::Action& action);
  bool hold(LinkId link, std::string_view frame);
  // Nobody has to wait for those numbers, up to that one, any more.
  void kept(Keeping keeping, std::uint64_t through);
  // The next that is to be said now, and nothing behind the last.
  std::optional<Word> next();
  // Bytes of frames for that link that are held.
  std::size_t bytes_for(LinkId link) const;
  // How its job has ended is held for that link: whoever closes it has not heard that.
  bool holds_end_for(LinkId link) const { return ends_.contains(link); }
  // Nobody will ever hear them, but for whoever has asked for something and waits to hear that it
  // is done: those answers, which are not true any more.
  std::vector<coordinator::Answered> drop_all();

 private:
  using Numbers = std::array<std::uint64_t, 4>;
  struct Held {
    Numbers numbers{};
    Word word;
  };
  bool is_awaited(const Numbers& numbers) const;
  bool hold(Word word);

  Numbers awaited_{};
  Numbers kept_{};
  std::deque<Held> held_;
  std::unordered_map<LinkId, std::size_t> bytes_;  // of frames, by link
  std::unordered_set<LinkId> ends_;                // links for which a Finish is held
};

// What nodes say behind their join while nobody can hear it yet: the store of their job is being
// opened, or this coordinator is about to lead. Whoever comes back says again what may have been
// missed, and only once.
class EarlyWords {
 public:
  // Its words are kept from now on, those of before too.
  void expect(LinkId link) { words_.try_emplace(link); }
  // False: it says more than any agent does, or all of them together do. Of a link that is not
  // expected nothing is kept, and of heartbeats neither: they are for the moment.
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
  std::size_t bytes_ = 0;  // of all of them, as they came
};

}  // namespace cpprun

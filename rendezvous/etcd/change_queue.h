// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a leader wants to have written and is not written yet: of each record the last wish alone,
// in the place of the first. What is under way is not touched any more: it may be there already.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

class ChangeQueue {
 public:
  struct Change {
    std::string name;                   // of a record; empty: who is synced
    std::optional<std::string> record;  // nothing: it is to go
    std::vector<std::string> synced = {};
    // The numbers of the wishes that it stands for.
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  using Batch = std::vector<Change>;

  // Numbers grow from wish to wish.
  void keep(std::string name, std::string record, std::uint64_t number);
  void drop(std::string name, std::uint64_t number);
  void publish(std::vector<std::string> synced, std::uint64_t number);
  // That wish was refused, and is not waited for.
  void skip(std::uint64_t number) { last_ = number; }

  bool has_more() const { return !waiting_.empty() || !under_way_.empty(); }
  // What is to be written now: the same until it was said to be written.
  const Batch& next_batch();
  void written() { under_way_.clear(); }
  // It is too much for etcd at once: the first of what was under way is tried alone. False: it was
  // alone already.
  bool narrow();
  // What was under way, and alone, is not wanted any more.
  Change give_up();

  std::uint64_t last() const { return last_; }
  // All wishes up to that number are written, or were refused.
  std::uint64_t through() const;
  // What comes now is of another leader's life.
  void clear();
  // What is broken about it; nothing: nothing is.
  std::optional<std::string> check() const;

 private:
  void add(Change change);

  std::deque<Change> waiting_;
  Batch under_way_;
  std::uint64_t last_ = 0;  // the number of the last wish
};

}  // namespace cpprun

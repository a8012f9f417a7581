// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A conversation as text: what is said to a machine, and under it, indented, what came back.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun::transcripts {

// One line of input, taken apart at its blanks: "1 joins host=alpha idle".
class Words {
 public:
  explicit Words(const std::string& line);

  // The word at that place, and nothing where there are fewer.
  std::string at(std::size_t index) const { return index < words_.size() ? words_[index] : ""; }
  std::size_t size() const { return words_.size(); }
  // Everything from that word on, as it was written.
  std::string rest(std::size_t index) const;
  bool has(const std::string& word) const;
  // Of "name=value".
  std::optional<std::string> value(const std::string& name) const;
  int number(const std::string& name, int otherwise) const;
  Duration duration(const std::string& name, Duration otherwise) const;
  // Of "nodes=1:3"; one number is both.
  std::pair<int, int> range(const std::string& name, std::pair<int, int> otherwise) const;

 private:
  std::string line_;
  std::vector<std::string> words_;
  std::vector<std::size_t> begins_;
};

// "1.5s", "20ms"
Duration duration_of(const std::string& text);

// What an input line means in one kind of conversation.
class Player {
 public:
  virtual ~Player() = default;
  // What comes back. Throws std::invalid_argument with what it does not understand.
  virtual std::vector<std::string> answer(const Words& said) = 0;
};

// The player of each kind is made by the conversation's first line.
std::unique_ptr<Player> make_coordinator_player(const Words& first);
std::unique_ptr<Player> make_agent_player(const Words& first);
std::unique_ptr<Player> make_supervisor_player(const Words& first);
std::unique_ptr<Player> make_store_player(const Words& first);
std::unique_ptr<Player> make_link_player(const Words& first);

// The same conversation with what comes back today.
std::string replay(const std::string& conversation);

// "line 12: …" of both, and nothing where they are the same.
std::optional<std::string> first_difference(const std::string& expected, const std::string& got);

}  // namespace cpprun::transcripts

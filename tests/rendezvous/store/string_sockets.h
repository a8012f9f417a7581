// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// StoreSessions with strings in place of sockets and a time that the test sets: the calls of the
// server's loop, in the same order. After each turn check() is called.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "proto/state_machine.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {

class StringSockets {
 public:
  static constexpr std::size_t endless = std::numeric_limits<std::size_t>::max();

  // One client, as the network sees it.
  struct Client {
    ConnectionId id;
    std::string unread;              // sent by it and not read yet
    std::string heard;               // written to it
    std::size_t room = endless;      // bytes that it still accepts before it is full
    std::optional<std::string> end;  // why it was closed, if it was
    bool left_by_itself = false;
    bool is_watched_for_bytes = true;
    bool is_watched_for_room = false;
    int write_count = 0;
    // its first bytes, if they are those of the link protocol
    std::optional<std::string> handed_over;
    Protocol speaks = Protocol::undecided;  // and the protocol
  };

  explicit StringSockets(SessionLimits limits = {}, MemoryLimits memory = {})
      : accounting(std::make_shared<MemoryAccounting>(memory)), sessions(limits, accounting) {
    sessions.open_port(0, [this]() -> Store& { return store; });
  }

  // Returns the number of a new client.
  int dial(c10d::Dialect dialect = c10d::Dialect::undecided) {
    const int socket = static_cast<int>(clients_.size());
    const PeerAddress peer{.ip = {}, .port = static_cast<std::uint16_t>(socket)};
    clients_.emplace_back().id = sessions.open(socket, peer, 0, dialect);
    return socket;
  }
  Client& operator[](int client) { return clients_.at(static_cast<std::size_t>(client)); }

  // Adds bytes; turn() processes them.
  void say(int client, std::string_view bytes) { (*this)[client].unread.append(bytes); }
  void leave(int client) {
    sessions.close((*this)[client].id, "the client left", true);
    perform();
  }
  // The client reads what was written to it and has room for that many more bytes.
  void take(int client, std::size_t bytes) {
    (*this)[client].room += bytes;
    if (takes_more((*this)[client])) tell_writable((*this)[client]);
  }

  // One turn of the loop; true: another is needed at once.
  bool turn() {
    sessions.begin_turn(now);
    if (go_on_alone()) return true;
    while (sessions.close_next()) perform();
    while (sessions.decide_next()) perform();
    for (Client& client : clients_) {
      if (takes_more(client)) tell_writable(client);
      read(client);
    }
    while (sessions.send_next()) perform();
    while (sessions.advance_next()) perform();
    look();
    return sessions.has_more() || std::ranges::any_of(clients_, [](const Client& client) {
             const bool is_readable = !client.unread.empty() && client.is_watched_for_bytes;
             return !client.end && !client.handed_over && (is_readable || takes_more(client));
           });
  }
  // Runs turns until no client has work left; returns their number.
  int until_quiet() {
    int turns = 1;
    for (; turn(); ++turns) {
      if (turns > 100'000) throw std::logic_error("the sessions never become idle");
    }
    return turns;
  }
  // Returns what it received since the last call.
  std::string ask(int client, std::string_view bytes) {
    say(client, bytes);
    until_quiet();
    return std::exchange((*this)[client].heard, {});
  }
  void pass(Duration time) {
    now += time;
    until_quiet();
  }

  std::shared_ptr<MemoryAccounting> accounting;
  Store store;
  StoreSessions sessions;
  std::string refusal;  // not empty: every client is rejected for this reason
  TimePoint now{std::chrono::hours(1)};

 private:
  bool go_on_alone() {
    const bool has_stores = sessions.go_on_with_stores();
    perform();
    if (has_stores) {
      while (sessions.send_next()) perform();
    }
    const bool was_busy = has_stores || sessions.go_on_with_long();
    perform();
    look();
    return was_busy;
  }

  void look() const {
    if (const auto broken = sessions.check()) throw std::logic_error(*broken);
  }

  static bool takes_more(const Client& client) {
    return client.is_watched_for_room && client.room > 0 && !client.end;
  }
  void tell_writable(const Client& client) {
    sessions.writable(client.id);
    perform();
  }

  void read(Client& client) {
    if (client.unread.empty() || client.end || client.handed_over || !client.is_watched_for_bytes) {
      return;
    }
    if (sessions.work_left() <= 0 || sessions.is_busy()) return;
    const std::span<char> room = sessions.room(client.id);
    const std::size_t count = std::min(room.size(), client.unread.size());
    if (count > 0) {
      std::memcpy(room.data(), client.unread.data(), count);
      client.unread.erase(0, count);
      sessions.received(client.id, count);
    }
    perform();
  }

  void perform() {
    while (const std::optional<SessionAction> action = sessions.next_action()) {
      std::visit(Overloaded{
                     [this](const session::Write& write) { on(write); },
                     [this](const session::Watch& watch) {
                       (*this)[watch.socket].is_watched_for_bytes = watch.for_bytes;
                       (*this)[watch.socket].is_watched_for_room = watch.for_room;
                     },
                     [this](const session::Admit& admit) {
                       if (refusal.empty()) return sessions.admit(admit.id);
                       sessions.close(admit.id, refusal);
                     },
                     [this](const session::HandOver& hand_over) {
                       (*this)[hand_over.socket].handed_over = hand_over.first_bytes;
                       (*this)[hand_over.socket].speaks = hand_over.speaks;
                     },
                     [this](const session::Close& close) {
                       (*this)[close.socket].end = close.reason;
                       (*this)[close.socket].left_by_itself = close.is_ordinary;
                     },
                 },
                 *action);
    }
  }

  void on(const session::Write& write) {
    Client& client = (*this)[write.socket];
    std::array<std::string_view, 8> room;
    std::size_t count = 0;
    for (const std::string_view piece : sessions.pieces(write.to, room)) {
      const std::string_view taken = piece.substr(0, client.room);
      client.heard.append(taken);
      if (client.room != endless) client.room -= taken.size();
      count += taken.size();
      if (taken.size() < piece.size()) break;
    }
    ++client.write_count;
    sessions.sent(write, count);
  }

  std::vector<Client> clients_;
};

}  // namespace cpprun

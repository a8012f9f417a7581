// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/io/host_answers.h"

#include <fmt/format.h>

#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <utility>
#include <vector>

#include "launcher/doctor/exchange_json.h"
#include "launcher/doctor/io/facts.h"
#include "launcher/endpoint.h"
#include "launcher/io/wall_clock.h"
#include "launcher/plan/io/addresses.h"
#include "launcher/plan/io/host.h"
#include "proto/state_machine.h"

namespace cpprun::io {

using namespace doctor;
using asio::ip::tcp;

namespace {

constexpr int greeting_random_bytes = 8;
constexpr auto connect_patience = std::chrono::seconds(3);   // for one of the others
constexpr auto look_up_patience = std::chrono::seconds(20);  // for all names together

// Everything that is under way holds the answers.
class HostAnswers : public std::enable_shared_from_this<HostAnswers> {
 public:
  HostAnswers(asio::io_context& context, Environment environment)
      : context_(context),
        environment_(std::move(environment)),
        acceptor_(context),
        greeting_("cpprun-doctor " + random_token(greeting_random_bytes) + "\n") {}

  void answer(int number, const std::string& text, const Reply& reply) {
    const WallTime asked = wall_now();
    const auto question = read_question(text);
    if (!question) return;  // of another version, which the shell has refused
    std::visit(Overloaded{
                   [&](const AskFacts& ask) { say_facts(asked, ask, reply); },
                   [&](const AskDial& ask) { begin_dialing(number, ask, reply); },
               },
               *question);
  }

 private:
  // One of the others, being looked for.
  struct Look {
    explicit Look(asio::io_context& context) : socket(context), timer(context) {}
    Target target;
    tcp::socket socket;
    asio::steady_timer timer;
    std::string heard;
    Dialed result;
    bool has_address = false;  // and is dialed there, whatever its name stands for
    bool is_looked_up = false;
    bool is_dialed = false;
    bool is_late = false;  // the connection's time is over
  };
  using LookPointer = std::shared_ptr<Look>;

  void say_facts(WallTime asked, const AskFacts& ask, const Reply& reply) {
    HostFacts facts = gather_facts(environment_);
    facts.asked = asked;
    facts.greeting = greeting_;
    if (auto listening = listen(ask.port)) {
      facts.port = *listening;
      accept();
    } else {
      facts.why_no_port = listening.error().reason;
    }
    facts.answered = wall_now();
    reply(to_json(Reading{facts}));
  }

  // On IPv6 and IPv4 together, or on IPv4 where there is nothing else.
  Result<int> listen(int port) {
    const auto number = static_cast<std::uint16_t>(port);
    asio::error_code refused;
    for (const auto& family : {tcp::v6(), tcp::v4()}) {
      acceptor_.close(refused);
      acceptor_.open(family, refused);
      if (refused) continue;
      acceptor_.set_option(tcp::acceptor::reuse_address(true), refused);
      if (family == tcp::v6()) acceptor_.set_option(asio::ip::v6_only(false), refused);
      acceptor_.bind({family, number}, refused);
      if (refused) continue;
      acceptor_.listen(asio::socket_base::max_listen_connections, refused);
      if (!refused) return acceptor_.local_endpoint().port();
    }
    return failure(port == 0 ? refused.message()
                             : fmt::format("port {}: {}", port, refused.message()));
  }

  void accept() {
    auto guest = std::make_shared<tcp::socket>(context_);
    acceptor_.async_accept(*guest, [self = shared_from_this(), guest](const asio::error_code& no) {
      if (no == asio::error::operation_aborted) return;
      if (!no) {
        asio::async_write(*guest, asio::buffer(self->greeting_),
                          [self, guest](const asio::error_code&, std::size_t) {});
      }
      self->accept();
    });
  }

  void begin_dialing(int number, const AskDial& ask, const Reply& reply) {
    reply_ = reply;
    for (auto& target : others_of(number, ask.all)) {
      auto look = std::make_shared<Look>(context_);
      look->result.number = target.number;
      look->target = std::move(target);
      looks_.push_back(look);
    }
    for (const auto& look : looks_) {
      look->has_address = literal_address(look->target.address).has_value();
      if (look->has_address) dial(look, {look->target.address});
      look_up(context_, look->target.name,
              [self = shared_from_this(), look](const auto& found) { self->found(look, found); });
    }
    look_up_timer_.expires_after(look_up_patience);
    look_up_timer_.async_wait([self = shared_from_this()](const asio::error_code& cancelled) {
      if (!cancelled) self->give_up_names();
    });
    finish_if_done();
  }

  void found(const LookPointer& look, const Result<std::vector<std::string>>& found) {
    if (look->is_looked_up) return;
    look->is_looked_up = true;
    if (found) {
      look->result.addresses = *found;
    } else {
      look->result.why_unresolved = found.error().reason;
    }
    if (!look->has_address) dial(look, look->result.addresses);
    finish_if_done();
  }

  void give_up_names() {
    for (const auto& look : looks_) {
      found(look, failure(fmt::format("no name server has answered within {} s",
                                      look_up_patience.count())));
    }
  }

  // The first of its addresses, as the resolver orders them.
  void dial(const LookPointer& look, const std::vector<std::string>& addresses) {
    if (look->target.port == 0) return end(look, Reached::not_tried, "");
    if (addresses.empty()) return end(look, Reached::unresolved, "its name is not resolved");
    asio::error_code none;
    const auto address = asio::ip::make_address(addresses.front(), none);
    look->result.where = to_string(Endpoint{addresses.front(), look->target.port});
    look->timer.expires_after(connect_patience);
    look->timer.async_wait([look](const asio::error_code& cancelled) {
      if (cancelled) return;
      look->is_late = true;
      asio::error_code ignored;
      look->socket.close(ignored);
    });
    const tcp::endpoint place(address, static_cast<std::uint16_t>(look->target.port));
    look->socket.async_connect(place,
                               [self = shared_from_this(), look](const asio::error_code& error) {
                                 if (error) return self->failed(look, error);
                                 self->hear(look);
                               });
  }

  void hear(const LookPointer& look) {
    look->heard.resize(look->target.greeting.size());
    asio::async_read(look->socket, asio::buffer(look->heard),
                     [self = shared_from_this(), look](const asio::error_code& error, std::size_t) {
                       if (look->is_late) return self->failed(look, error);
                       const bool is_meant = !error && look->heard == look->target.greeting;
                       self->end(look, is_meant ? Reached::yes : Reached::stranger,
                                 is_meant ? "" : "somebody else answers there");
                     });
  }

  void failed(const LookPointer& look, const asio::error_code& error) {
    if (look->is_late) {
      return end(look, Reached::silent,
                 fmt::format("no answer within {} s", connect_patience.count()));
    }
    const bool is_refused = error == asio::error::connection_refused;
    end(look, is_refused ? Reached::refused : Reached::failed, error.message());
  }

  void end(const LookPointer& look, Reached reached, std::string why) {
    look->timer.cancel();
    look->is_dialed = true;
    look->result.reached = reached;
    look->result.why = std::move(why);
    finish_if_done();
  }

  void finish_if_done() {
    for (const auto& look : looks_) {
      if (!look->is_dialed || !look->is_looked_up) return;
    }
    if (!reply_) return;
    look_up_timer_.cancel();
    std::vector<Dialed> results;
    for (const auto& look : looks_) results.push_back(look->result);
    std::exchange(reply_, {})(to_json(Reading{results}));
  }

  asio::io_context& context_;
  const Environment environment_;
  tcp::acceptor acceptor_;
  asio::steady_timer look_up_timer_{context_};
  const std::string greeting_;
  std::vector<LookPointer> looks_;
  Reply reply_;
};

}  // namespace

Answerer make_host_answers(asio::io_context& context, const Environment& environment) {
  return [answers = std::make_shared<HostAnswers>(context, environment)](
             int number, const std::string& question, const Reply& reply) {
    answers->answer(number, question, reply);
  };
}

}  // namespace cpprun::io

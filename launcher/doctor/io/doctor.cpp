// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/io/doctor.h"

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <csignal>
#include <utility>

#include "launcher/doctor/exchange_json.h"
#include "launcher/doctor/io/host_answers.h"
#include "launcher/fanout/io/host_side.h"
#include "launcher/fanout/io/shells.h"
#include "launcher/io/wall_clock.h"
#include "proto/state_machine.h"

namespace cpprun::io {

using namespace doctor;

namespace {

constexpr const char* program_name = "cpprunctl";

class Console {
 public:
  Console(const DoctorOrder& order, const Environment& environment)
      : signals_(context_, SIGINT, SIGTERM, SIGHUP),
        timer_(context_),
        machine_(order.members, order.port),
        shells_(context_, environment,
                {.folder = "/", .shell = order.shell, .ship = order.ship, .is_rehearsal = true},
                own_binary(order.ship, program_name),
                [this](const fanout::Up& message) { tell(message); }) {}

  Examined run() {
    wait_for_signals();
    perform(machine_.start());
    context_.run();
    return {.hosts = machine_.hosts(), .interrupted = code_};
  }

 private:
  void wait_for_signals() {
    signals_.async_wait([this](const asio::error_code& error, int signal) {
      if (error) return;
      wait_for_signals();
      tell(fanout::Interrupted{signal});
    });
  }

  static Examination::Now now() { return {std::chrono::steady_clock::now(), wall_now()}; }

  void tell(const Examination::Event& event) { perform(machine_.handle(now(), event)); }

  void perform(const Examination::Actions& actions) {
    for (const auto& action : actions) {
      std::visit(Overloaded{
                     [&](const fanout::DialHosts& a) { shells_.dial(a.members); },
                     [&](const fanout::TellHosts& a) { shells_.tell(a.message); },
                     [&](const fanout::Finish& a) { finish(a.code); },
                 },
                 action);
    }
    const auto due = machine_.next_deadline();
    if (!due) return;
    timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(*due));
    timer_.async_wait([this](const asio::error_code& error) {
      if (!error) perform(machine_.advance(now()));
    });
  }

  // Whoever has said that it ends is gone in a moment.
  void finish(int code) {
    code_ = code;
    if (shells_.empty()) return context_.stop();
    shells_.when_idle([this] { context_.stop(); });
    timer_.expires_after(fanout::kill_patience);
    timer_.async_wait([this](const asio::error_code& error) {
      if (!error) context_.stop();
    });
  }

  asio::io_context context_;
  asio::signal_set signals_;
  asio::steady_timer timer_;
  Examination machine_;
  Shells shells_;
  int code_ = 0;
};

}  // namespace

Examined examine_hosts(const DoctorOrder& order, const Environment& environment) {
  return Console(order, environment).run();
}

Examined examine_here(int port, const Environment& environment) {
  asio::io_context context;
  ExaminedHost self;
  make_host_answers(context, environment)(0, to_json(Question{AskFacts{port}}),
                                          [&](const std::string& answer) {
                                            auto reading = read_reading(answer);
                                            if (reading)
                                              self.facts = std::get<HostFacts>(*std::move(reading));
                                          });
  return {.hosts = {std::move(self)}};
}

int run_doctor_side(Environment environment, bool removes_itself) {
  const auto own = environment;
  return run_host_side(std::move(environment), {.removes_itself = removes_itself,
                                                .program = program_name,
                                                .make_answerer = [own](asio::io_context& context) {
                                                  return make_host_answers(context, own);
                                                }});
}

}  // namespace cpprun::io

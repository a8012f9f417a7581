// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/io/doctor.h"

#include <fmt/format.h>
#include <unistd.h>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "launcher/doctor/examination.h"
#include "launcher/fanout/io/fan_out.h"
#include "launcher/fanout/io/host_console.h"
#include "launcher/fanout/io/piped_program.h"
#include "launcher/fanout/io/shells.h"
#include "launcher/hang/io/native_stack.h"
#include "launcher/plan/io/host.h"
#include "launcher/plan/program.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "proto/version.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun::io {

using namespace doctor;
using asio::ip::tcp;

namespace {

constexpr const char* program_name = "cpprunctl";

constexpr std::size_t version_bytes_max = 200;
constexpr int greeting_random_bytes = 8;
constexpr auto connect_timeout = std::chrono::seconds(3);   // for one host
constexpr auto look_up_timeout = std::chrono::seconds(20);  // for all names together

// The first line of its output; empty if it cannot be run.
std::string version_line(const std::string& program, const Environment& environment) {
  const auto said = output_of({program, "--version"}, environment, version_bytes_max);
  return said ? plain_line(said->substr(0, said->find('\n'))) : std::string();
}

// Asks the cpprun next to this program, or else the one on PATH.
std::string version_of_cpprun(const Environment& environment) {
  const std::string own = link_target("/proc/self/exe");
  const auto beside = version_line(own.substr(0, own.rfind('/') + 1) + "cpprun", environment);
  return beside.empty() ? version_line("cpprun", environment) : beside;
}

// The versions of the workers' Python and of its PyTorch, which is not imported: that takes
// seconds.
constexpr const char* python_versions =
    "import sys\n"
    "print('%d.%d.%d' % sys.version_info[:3] + 't' * ('t' in getattr(sys, 'abiflags', '')))\n"
    "try:\n"
    "  from importlib.metadata import version\n"
    "  print(version('torch'))\n"
    "except Exception:\n"
    "  pass\n";

StackSources stack_sources(const Environment& environment) {
  StackSources sources{.has_py_spy = find_on_path("py-spy", environment, probe_file).has_value(),
                       .libdw_refusal = libdw_refusal(),
                       .ptrace_refusal = ptrace_refusal()};
  const auto program = resolve_program({.kind = ProgramKind::module, .script = "torch"},
                                       environment, probe_file, own_paths());
  const auto versions = program ? output_of({program->interpreter, "-c", python_versions},
                                            environment, version_bytes_max)
                                : std::nullopt;
  if (versions) {
    const auto lines = split(*versions, '\n');
    sources.python = plain_line(lines.front());
    if (lines.size() > 1) sources.torch = plain_line(lines[1]);
  }
  const auto scope = read_text_file("/proc/sys/kernel/yama/ptrace_scope", version_bytes_max);
  if (scope && ::geteuid() != 0) sources.ptrace_scope = leading_number<int>(*scope);
  return sources;
}

// Kept alive by pending operations.
class HostAnswers : public std::enable_shared_from_this<HostAnswers> {
 public:
  HostAnswers(asio::io_context& context, Environment environment)
      : context_(context),
        environment_(std::move(environment)),
        acceptor_(context),
        greeting_("cpprun-doctor " + random_token(greeting_random_bytes) + "\n") {}

  void answer(const std::string& text, const Reply& reply) {
    const WallTime asked = wall_now();
    const auto question = read_question(text);
    if (!question) return;  // from another version, which the bootstrap script rules out
    std::visit(Overloaded{
                   [&](const AskFacts& ask) { say_facts(asked, ask, reply); },
                   [&](const AskDial& ask) { begin_dialing(ask, reply); },
               },
               *question);
  }

 private:
  // One host that is being tried.
  struct Look {
    explicit Look(asio::io_context& context) : socket(context), timer(context) {}
    Target target;
    tcp::socket socket;
    asio::steady_timer timer;
    std::string heard;
    Dialed result;
    bool has_address = false;  // the target has a literal address, which is used for the connection
    bool is_looked_up = false;
    bool is_dialed = false;
    bool is_late = false;  // the connection has timed out
  };
  using LookPointer = std::shared_ptr<Look>;

  void say_facts(WallTime asked, const AskFacts& ask, const Reply& reply) {
    HostFacts facts = collect_host_facts(environment_);
    facts.version = version_text();
    facts.cpprun = version_of_cpprun(environment_);
    facts.stacks = stack_sources(environment_);
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

  // Listens on IPv6 and IPv4 together, or on IPv4 if there is no IPv6.
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
    auto remote = std::make_shared<tcp::socket>(context_);
    acceptor_.async_accept(
        *remote, [self = shared_from_this(), remote](const asio::error_code& no) {
          if (no == asio::error::operation_aborted) return;
          if (!no) {
            asio::async_write(*remote, asio::buffer(self->greeting_),
                              [self, remote](const asio::error_code&, std::size_t) {});
          }
          self->accept();
        });
  }

  void begin_dialing(const AskDial& ask, const Reply& reply) {
    reply_ = reply;
    for (const auto& target : ask.others) {
      auto look = std::make_shared<Look>(context_);
      look->result.number = target.number;
      look->target = target;
      looks_.push_back(look);
    }
    for (const auto& look : looks_) {
      look->has_address = literal_address(look->target.address).has_value();
      if (look->has_address) dial(look, {look->target.address});
      look_up(context_, look->target.name,
              [self = shared_from_this(), look](const auto& found) { self->found(look, found); });
    }
    look_up_timer_.expires_after(look_up_timeout);
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
      found(look,
            failure(fmt::format("no name server responded within {} s", look_up_timeout.count())));
    }
  }

  // Tries the first address, in the resolver's order.
  void dial(const LookPointer& look, const std::vector<std::string>& addresses) {
    if (look->target.port == 0) return end(look, Reached::not_tried, "");
    if (addresses.empty()) return end(look, Reached::unresolved, "the name cannot be resolved");
    asio::error_code none;
    const auto address = asio::ip::make_address(addresses.front(), none);
    look->result.where = to_string(Endpoint{addresses.front(), look->target.port});
    look->timer.expires_after(connect_timeout);
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
                       self->end(look, is_meant ? Reached::yes : Reached::unrelated,
                                 is_meant ? "" : "another program responded");
                     });
  }

  void failed(const LookPointer& look, const asio::error_code& error) {
    if (look->is_late) {
      return end(look, Reached::silent,
                 fmt::format("no response within {} s", connect_timeout.count()));
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

// The host's side of an examination: reports facts about the machine, listens on a port, and tries
// to reach the other hosts by name and by connection. A client that connects to the port receives a
// random word and nothing else. The port is closed when the examination ends.
Answerer make_host_answers(asio::io_context& context, const Environment& environment) {
  return [answers = std::make_shared<HostAnswers>(context, environment)](
             const std::string& question, const Reply& reply) { answers->answer(question, reply); };
}

}  // namespace

Examined examine_hosts(const DoctorRequest& order, const Environment& environment) {
  HostConsole<Examination> console(
      Examination(order.members, order.port,
                  {.now = std::chrono::steady_clock::now(), .wall = wall_now()}),
      environment, order.shell, {.directory = "/", .is_rehearsal = true},
      own_binary(order.ship, program_name));
  const int interrupted = console.run();
  return {.hosts = console.machine().hosts(), .interrupted = interrupted};
}

Examined examine_here(int port, const Environment& environment) {
  asio::io_context context;
  ExaminedHost self;
  make_host_answers(context, environment)(to_json(Question{AskFacts{port}}),
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
                                                .make_answerer = [own](asio::io_context& context) {
                                                  return make_host_answers(context, own);
                                                }});
}

}  // namespace cpprun::io

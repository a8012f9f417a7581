// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/io/console.h"

#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "launcher/fanout/fan_out.h"
#include "launcher/fanout/io/shells.h"
#include "launcher/output/lines.h"
#include "proto/state_machine.h"
#include "rendezvous/io/program.h"

namespace cpprun::io {

using namespace fanout;

namespace {

class Console {
 public:
  Console(Request request, const Environment& environment, const SaySentence& say,
          const TakeOutput& take)
      : say_(say),
        take_(take),
        signals_(context_, SIGINT, SIGTERM, SIGHUP),
        timer_(context_),
        machine_(request.wanted),
        shells_(context_, environment, request.job, own_binary(request.job.ship),
                [this](const Up& message) { tell(message); }) {
    for (const auto& member : request.wanted.members) names_[member.number] = member.name;
    signals_.add(SIGQUIT);
  }

  int run() {
    wait_for_signals();
    perform(machine_.start());
    context_.run();
    const int code = code_.value_or(1);
    // A reader that closed the pipe needs no further output.
    if (code == 0 && stdout_error_ != 0 && stdout_error_ != EPIPE) {
      errno = stdout_error_;
      exit_for_lost_output("cpprun");
    }
    return code;
  }

 private:
  struct Streams {
    LineSplitter out, err;
  };

  void tell(const FanOut::Event& event) {
    perform(machine_.handle(std::chrono::steady_clock::now(), event));
  }

  void perform(const FanOut::Actions& actions) {
    for (const auto& action : actions) {
      std::visit(Overloaded{
                     [&](const DialHosts& a) { shells_.dial(a.members); },
                     [&](const TellHosts& a) { shells_.tell(a.message); },
                     [&](const Show& a) { show(a.words); },
                     [&](const Say& a) { say_(a.sentence, a.is_error); },
                     [&](const Finish& a) { finish(a.code); },
                 },
                 action);
    }
    if (!code_) arm();
  }

  void show(const Words& words) {
    if (take_ && !words.is_error) return take_(words.number, words.text);
    Streams& streams = streams_[words.number];
    LineSplitter& splitter = words.is_error ? streams.err : streams.out;
    const std::string& name = names_[words.number];
    std::FILE* const file = words.is_error ? stderr : stdout;
    splitter.take(words.text, [&](const Piece& piece) { print(file, name, piece); });
    flush(file);
  }

  void flush(std::FILE* file) {
    if (std::fflush(file) != 0 && file == stdout && stdout_error_ == 0) stdout_error_ = errno;
  }

  static void print(std::FILE* file, const std::string& name, const Piece& piece) {
    if (piece.begins_line) {
      std::fputc('[', file);
      std::fwrite(name.data(), 1, name.size(), file);
      std::fputs("] ", file);
    }
    std::fwrite(piece.text.data(), 1, piece.text.size(), file);
  }

  void finish(int code) {
    for (auto& [number, streams] : streams_) {
      streams.out.finish([&](const Piece& piece) { print(stdout, names_[number], piece); });
      streams.err.finish([&](const Piece& piece) { print(stderr, names_[number], piece); });
    }
    flush(stdout);
    code_ = code;
    if (shells_.empty()) return context_.stop();
    // A shell that has announced its end exits shortly.
    shells_.when_idle([this] { context_.stop(); });
    timer_.expires_after(kill_timeout);
    timer_.async_wait([this](const asio::error_code& error) {
      if (!error) context_.stop();
    });
  }

  void wait_for_signals() {
    signals_.async_wait([this](const asio::error_code& error, int signal) {
      if (error) return;
      wait_for_signals();
      tell(Interrupted{signal});
    });
  }

  void arm() {
    const auto due = machine_.next_deadline();
    if (!due) {
      timer_.cancel();
      return;
    }
    timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(*due));
    timer_.async_wait([this](const asio::error_code& error) {
      if (!error) perform(machine_.advance(std::chrono::steady_clock::now()));
    });
  }

  const SaySentence& say_;
  const TakeOutput& take_;
  asio::io_context context_;
  asio::signal_set signals_;
  asio::steady_timer timer_;
  FanOut machine_;
  Shells shells_;
  std::map<int, std::string> names_;
  std::map<int, Streams> streams_;
  std::optional<int> code_;
  int stdout_error_ = 0;  // errno of the first failed write
};

}  // namespace

std::string working_folder() {
  std::array<char, PATH_MAX> path{};
  return ::getcwd(path.data(), path.size()) == nullptr ? "/" : path.data();
}

int run_console(Request request, const Environment& environment, const SaySentence& say,
                const TakeOutput& take) {
  return Console(std::move(request), environment, say, take).run();
}

}  // namespace cpprun::io

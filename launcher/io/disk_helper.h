// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Disks that may hang, by side processes: questions about files (AsyncTask), and files that are
// opened for us (PassedFd).

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun::io {

// Asks a question that may never be answered, about files on a hung disk, in a side process and for
// a limited time. Nothing waits for it, neither the event loop nor cpprun's end.
class AsyncTask {
 public:
  using Look = std::function<std::string()>;
  using Told = std::function<void(const std::optional<std::string>& answer)>;

  AsyncTask(asio::io_context& context, HelperProcesses& side, Duration patience);
  AsyncTask(const AsyncTask&) = delete;
  AsyncTask& operator=(const AsyncTask&) = delete;
  // Nobody who was asked is waited for, and nothing is told any more.
  ~AsyncTask();

  // `look` runs in the side process, and what it changes stays there; `told` is called from the
  // event loop with its result, or with nothing if that did not come in time. Questions asked
  // meanwhile are answered afterwards, all in one go.
  void ask(Look look, Told told);

 private:
  struct Question {
    Look look;
    Told told;
  };

  void begin();
  void listen();
  void tell();

  asio::posix::stream_descriptor news_;  // closes when the process has come to its end
  asio::steady_timer timer_;
  HelperProcesses& side_;
  Duration patience_;
  std::vector<Question> asked_;    // being looked at
  std::vector<Question> waiting_;  // for the next go
  std::string answers_;            // of those asked, as far as they have come
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// A file that a side process has opened for us, because its disk may hang.
struct PassedFd {
  int number = 0;        // which of those that were asked for
  int error_number = 0;  // errno; 0 where nothing is wrong
  FileDescriptor file;   // where it is handed over at all
};

// The two ends of a way for them, each message whole.
struct PassedFdWay {
  FileDescriptor mine;
  FileDescriptor theirs;
};
std::optional<PassedFdWay> make_way();

void hand(int socket, int number, int error_number, int file = -1);

// The next one, waited for until then; nothing where none comes.
std::optional<PassedFd> take_handed(int socket, TimePoint deadline);
// The same without waiting; `ended` where nobody is at the other end any more.
std::optional<PassedFd> take_handed_now(int socket, bool& ended);

}  // namespace cpprun::io

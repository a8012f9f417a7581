// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The file of --events. Lines reach it whole and in order. If a pipe is not read or a disk is full,
// they wait, up to a limit, and follow as soon as there is room. Nothing here blocks: a file on a
// disk, which may hang, is written by a process of its own (event_writer.h), through a pipe.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

// Whether a reader, or deleting files, could cure it.
bool waiting_helps(int error_number);

// Whether there is no disk behind that path. Then this very process writes it, since another one
// has another /dev/stdout.
bool is_at_hand(const std::string& path);
// Where that is a symbolic link to such a path, that; else nothing. It looks at the disk.
std::string leads_at_hand(std::string path);

class EventFile {
 public:
  EventFile() = default;  // none is kept
  // Appended to; a pipe that nobody reads is refused, and so is a disk that does not answer.
  static Result<EventFile> open(const std::string& path, SideProcesses& side);

  explicit operator bool() const { return bool(file_); }

  // From now on a pipe that is full is written to again when it has room, and `tell` hears a
  // sentence of whatever goes wrong, once for each time that it begins. It stays where it is then,
  // and is gone before the context.
  using Tell = std::function<void(const std::string& sentence)>;
  void serve(asio::io_context& context, Tell tell);
  // After an error that no waiting cures, nothing more is written.
  void append(const std::string& line);
  // The end: `done` is called when everything is written or was given up.
  void finish(std::function<void()> done);

  // Lines that found no room even to wait, since this was asked last.
  std::size_t take_lost();
  bool all_written() const { return waiting_.empty(); }

 private:
  enum class Outcome { written, later, over };
  struct Service {
    Service(asio::io_context& context, Tell says)
        : room(context), news(context), timer(context), tell(std::move(says)) {}
    asio::posix::stream_descriptor room;
    asio::posix::stream_descriptor news;  // of the process that writes
    asio::steady_timer timer;
    Tell tell;
    std::function<void()> done;
  };

  Result<void> open_at_hand(const std::string& path);
  Outcome write_front();
  void write_waiting();
  void listen();
  void hear();
  void close();
  void complain(int error_number);
  void tell(const std::string& sentence) const;
  void end();

  FileDescriptor file_;  // or the pipe to the process that writes it
  FileDescriptor news_;  // from that; none where we write ourselves
  std::string path_;
  // Shared with the handlers that wait, which may outlive a move.
  std::shared_ptr<Service> service_;
  std::deque<std::string> waiting_;  // the rest of a line that a pipe took a part of comes first
  std::size_t waiting_bytes_ = 0;
  std::size_t lost_ = 0;
  bool complained_ = false;
  bool listening_ = false;  // for room in a pipe
  bool finishing_ = false;
  int error_number_ = 0;
};

}  // namespace cpprun::io

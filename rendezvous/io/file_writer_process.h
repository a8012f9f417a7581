// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Writes files in a separate process. A write to a file cannot be non-blocking: if the disk hangs,
// the caller hangs, and with it heartbeats and signals. So the bytes go through a pipe, which can
// be non-blocking, and only the process at its other end waits. If the disk never responds, that
// process is abandoned; it writes what is in the pipe if the disk responds again.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/io/written_file.h"

namespace cpprun {

class FileWriterProcess {
 public:
  using File = WrittenFile::Plan;
  // From the process: a file was opened, or could not be opened or written.
  struct News {
    std::size_t index = 0;
    int error_number = 0;
    FileDescriptor file = {};  // if it is passed back
  };
  struct Callbacks {
    // A file could not be written; see WrittenFile.
    std::function<void(std::size_t index, int error_number)> trouble = {};
    std::function<void()> ended = {};  // the process exited; after `end`: everything is written
  };

  // The process opens the files and expects message()s for them. A single file that is already open
  // gets plain bytes. Returns null and sets errno if there is no pipe or no process.
  static std::unique_ptr<FileWriterProcess> begin(HelperProcesses& side, std::vector<File> files);
  // For an open file, which the caller still owns. Also returns null if it is not a file on a disk.
  static std::unique_ptr<FileWriterProcess> begin_for_file(asio::io_context& context,
                                                           HelperProcesses& side, int descriptor,
                                                           Callbacks callbacks);
  // The process stays when another program is executed here: what that program needs of it.
  struct Carried {
    int pipe = -1;
    int news = -1;
    std::size_t count = 0;
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  Carried carried() const { return {pipe_.get(), news_.get(), count_}; }
  static std::unique_ptr<FileWriterProcess> adopt(const Carried& carried) {
    return std::unique_ptr<FileWriterProcess>(new FileWriterProcess(
        FileDescriptor(carried.pipe), FileDescriptor(carried.news), carried.count));
  }
  ~FileWriterProcess() { *alive_ = false; }
  FileWriterProcess(const FileWriterProcess&) = delete;
  FileWriterProcess& operator=(const FileWriterProcess&) = delete;

  // Waits until all files are open. Files that are not open in time have ETIMEDOUT.
  std::vector<News> await_open(Duration timeout);
  // From now on the event loop makes the callbacks.
  void listen(asio::io_context& context, Callbacks callbacks);

  // The pipe to the process; for NonBlockingWriter.
  int pipe() const { return pipe_.get(); }
  // A message with bytes for one file. With OnError::keep_lines: one line.
  static std::string message(std::size_t index, std::string_view bytes);
  // If a disk is full, the process makes one more attempt and no longer waits for room.
  void stop_waiting();
  // The output is complete. All duplicates of the pipe must be closed by now.
  void end() { pipe_.reset(); }
  // Without an event loop: waits until everything is in the files, or for `timeout`.
  void finish(Duration timeout);

 private:
  FileWriterProcess(FileDescriptor pipe, FileDescriptor news, std::size_t count)
      : pipe_(std::move(pipe)), news_(std::move(news)), count_(count) {}
  std::optional<News> take_news(bool& is_over) const;
  // Without an event loop. nullopt: no message before the deadline, or the process has exited.
  std::optional<News> await_news(TimePoint deadline) const;
  void hear();

  FileDescriptor pipe_;
  FileDescriptor news_;  // messages from the process; closed when it exits
  std::size_t count_;    // of files
  std::optional<asio::posix::stream_descriptor> watch_;  // of news_
  Callbacks callbacks_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun

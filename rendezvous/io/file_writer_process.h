// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Writes files from a process of its own. A write to a file never reports "not now": if its disk
// hangs, so does the writer, and heartbeats and signals with it. So words for a file go through a
// pipe, which does report it, and only the process at its other end waits. If the disk never
// responds, the process is left behind; it still writes what is in the pipe when the disk comes
// back.

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

  // The process opens the files. It expects messages for them, or, for a file that is open already,
  // nothing but its bytes. Nothing, and errno, where the machine refuses a pipe or a process.
  static std::unique_ptr<FileWriterProcess> begin(HelperProcesses& side, std::vector<File> files);
  // For an open file, which stays the caller's. Nothing, too, where it is no file on a disk.
  static std::unique_ptr<FileWriterProcess> begin_for_file(asio::io_context& context,
                                                           HelperProcesses& side, int descriptor,
                                                           Callbacks callbacks);
  ~FileWriterProcess() { *alive_ = false; }
  FileWriterProcess(const FileWriterProcess&) = delete;
  FileWriterProcess& operator=(const FileWriterProcess&) = delete;

  // Waits until all files are open. Files that are not open in time have ETIMEDOUT.
  std::vector<News> await_open(Duration timeout);
  // From now on the callbacks are called, from the event loop.
  void listen(asio::io_context& context, Callbacks callbacks);

  // What is written here reaches the files.
  int pipe() const { return words_.get(); }
  // The bytes for one file; for lines, one line.
  static std::string message(std::size_t index, std::string_view bytes);
  // The process makes one more attempt where a disk is full, and does not wait for room.
  void stop_waiting();
  // Nothing more comes. All other holders of the pipe must have closed it before.
  void end() { words_.reset(); }
  // Without an event loop: waits until everything is in the files, but no longer.
  void finish(Duration timeout);

 private:
  FileWriterProcess(FileDescriptor words, FileDescriptor news, std::size_t count)
      : words_(std::move(words)), news_(std::move(news)), count_(count) {}
  std::optional<News> take_news(bool& is_over) const;
  // Without an event loop. nullopt: nothing came, or the process has exited.
  std::optional<News> await_news(TimePoint deadline) const;
  void hear();

  FileDescriptor words_;
  FileDescriptor news_;  // errnos from the process; it closes as the last thing
  std::size_t count_;    // of files
  std::optional<asio::posix::stream_descriptor> watch_;  // of news_
  Callbacks callbacks_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/file_writer_process.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/io/stream_writer.h"

namespace cpprun::io {

// Writes the log files of one attempt, by a process that opens all files, writes those that cpprun
// fills itself, and passes back the descriptors of files that become a worker's stdout or stderr.
// Output is queued up to a limit for as long as a disk may reasonably take. After that it is
// dropped and counted until the disk responds again. A full disk does not end the job.
class LogWriter {
 public:
  using File = FileWriterProcess::File;
  struct Callbacks {
    std::function<void()> room;  // the queue was full and has room again
    std::function<void(const std::string& sentence)> say;
    std::function<void()> ended;  // after `end`: everything is written
  };

  // Waits until all files are open, for a limited time. Files that are not open by then fail with
  // ETIMEDOUT.
  LogWriter(asio::io_context& context, HelperProcesses& side, const std::vector<File>& files,
            Duration timeout, Callbacks callbacks);
  // Continues the work of an object in another program of this process.
  struct Carried {
    std::vector<std::string> paths;
    FileWriterProcess::Carried process;
    std::string queue;
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  LogWriter(asio::io_context& context, const Carried& carried, Callbacks callbacks);
  // A reason if nothing is written at the moment.
  Result<Carried> carried() const;
  ~LogWriter() { *alive_ = false; }
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // In the order of the constructor's `files`.
  std::vector<FileWriterProcess::News>& opened() { return opened_; }

  void write(std::size_t index, std::string_view bytes);
  // While full, callers must hold their output until `room` is called.
  bool full() const { return !given_up_ && !ended_ && words_ && words_->full(); }
  // The output is complete.
  void end();
  bool ended() const { return ended_; }
  // The directory of the first file, for messages.
  std::string place() const;

 private:
  void serve(asio::io_context& context);
  void say_trouble(std::size_t index, int error_number);
  void process_ended();
  void watch_disk();
  void give_up();
  void answers_again();
  void words_are_out();

  asio::steady_timer timer_;
  Callbacks callbacks_;
  std::vector<std::string> paths_;
  std::vector<FileWriterProcess::News> opened_;
  std::unique_ptr<FileWriterProcess> process_;
  std::unique_ptr<NonBlockingWriter> words_;  // to the process
  bool watching_ = false;  // whether the timer that checks for progress of the disk is set
  bool given_up_ = false;
  bool ending_ = false;
  bool ended_ = false;
  std::uint64_t lost_bytes_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun::io

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The process that writes the log files of one attempt (LogWriter), and one such file (LogFile).

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/io/stream_writer.h"

namespace cpprun::io {

// Writes the log files of one attempt in a separate process, because their disk may hang. The
// process opens all files, writes those that cpprun fills itself, and passes back the descriptors
// of files that become a worker's stdout or stderr. Output is queued up to a limit for as long as a
// disk may reasonably take. After that it is dropped and counted until the disk responds again.
class LogWriter {
 public:
  struct OpenRequest {
    std::string path;
    bool emptied = true;          // false: append
    std::uint64_t bytes_max = 0;  // 0: no limit
    bool handed_over = false;
  };
  struct Opened {
    int error_number = 0;
    FileDescriptor file;  // if it is passed back
  };
  struct Callbacks {
    std::function<void()> room;  // the queue was full and has room again
    std::function<void(const std::string& sentence)> say;
    std::function<void()> ended;  // after `end`: everything is written
  };

  // Waits until all files are open, for a limited time. Files that are not open by then fail with
  // ETIMEDOUT.
  LogWriter(asio::io_context& context, HelperProcesses& side, std::vector<OpenRequest> requests,
            Duration timeout, Callbacks callbacks);
  ~LogWriter() { *alive_ = false; }
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // In the order of the constructor's `requests`.
  std::vector<Opened>& opened() { return opened_; }

  void write(std::size_t index, std::string_view bytes);
  // While full, callers must hold their output until `room` is called.
  bool full() const { return !given_up_ && !ended_ && words_ && words_->full(); }
  // The output is complete.
  void end();
  bool ended() const { return ended_; }
  // The directory of the first file, for messages.
  std::string place() const;

 private:
  int start(HelperProcesses& side);
  void hear();
  void process_ended();
  void watch_disk();
  void give_up();
  void answers_again();
  void words_are_out();

  asio::steady_timer timer_;
  asio::posix::stream_descriptor news_;
  Callbacks callbacks_;
  std::vector<OpenRequest> requests_;
  std::vector<Opened> opened_;
  FileDescriptor way_;   // messages from the process
  FileDescriptor pipe_;  // output to the process
  std::unique_ptr<NonBlockingWriter> words_;
  bool watching_ = false;  // whether the timer that checks for progress of the disk is set
  bool given_up_ = false;
  bool ending_ = false;
  bool ended_ = false;
  std::uint64_t lost_bytes_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// A log file. A full disk or a failed write does not end the job. If the size is limited, a full
// file is renamed to <path>.1, replacing an earlier one, and a new file begins. So about the
// last `bytes_max` bytes are always kept, and at most twice as much.
class LogFile {
 public:
  LogFile() = default;  // writes nothing

  // An empty path means no file. On failure returns false and sets errno. An existing file is
  // truncated or appended to.
  bool open(const std::string& path, bool emptied, std::uint64_t bytes_max = 0);
  void close() { file_.reset(); }
  explicit operator bool() const { return bool(file_); }
  int descriptor() const { return file_.get(); }

  // `complain` is called with the errno of the first failed write.
  using ErrorHandler = std::function<void(int error_number)>;
  void write(std::string_view bytes, const ErrorHandler& report_error);

 private:
  bool write_all(std::string_view bytes, const ErrorHandler& report_error);
  bool rotate(const ErrorHandler& report_error);
  bool refused(int error_number, const ErrorHandler& report_error);

  FileDescriptor file_;
  std::string path_;
  std::uint64_t bytes_ = 0;      // current size
  std::uint64_t bytes_max_ = 0;  // 0: no limit
  bool reported_ = false;
};

}  // namespace cpprun::io

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
#include "rendezvous/io/side_processes.h"
#include "rendezvous/io/stream_writer.h"

namespace cpprun::io {

// Writes the log files of one attempt in a process of its own, since their disk may hang. It opens
// all of them, writes those that cpprun fills itself, and hands over those that are a worker's own
// stdout or stderr. Words wait, up to a limit, for as long as a disk may reasonably take; after
// that they are lost, and counted, until the disk answers again.
class LogWriter {
 public:
  struct Order {
    std::string path;
    bool emptied = true;          // or continued
    std::uint64_t bytes_max = 0;  // 0: no limit
    bool handed_over = false;
  };
  struct Opened {
    int error_number = 0;
    FileDescriptor file;  // where it is handed over
  };
  struct Callbacks {
    std::function<void()> room;  // it was full and no longer is
    std::function<void(const std::string& sentence)> say;
    std::function<void()> ended;  // after `end`: everything is in the files
  };

  // Waits a limited time until all of them are open; those that are not fail with ETIMEDOUT.
  LogWriter(asio::io_context& context, SideProcesses& side, std::vector<Order> orders,
            Duration patience, Callbacks callbacks);
  ~LogWriter() { *alive_ = false; }
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // In the order in which they were asked for.
  std::vector<Opened>& opened() { return opened_; }

  void write(std::size_t order, std::string_view bytes);
  // Whoever brings words waits for `room`.
  bool full() const { return !given_up_ && !ended_ && words_ && words_->full(); }
  // Nothing more comes.
  void end();
  bool ended() const { return ended_; }
  // The folder of the first of them, for a sentence.
  std::string place() const;

 private:
  int start(SideProcesses& side);
  void hear();
  void process_ended();
  void watch_disk();
  void give_up();
  void answers_again();
  void words_are_out();

  asio::steady_timer timer_;
  asio::posix::stream_descriptor news_;
  Callbacks callbacks_;
  std::vector<Order> orders_;
  std::vector<Opened> opened_;
  FileDescriptor way_;   // to the process, for what it says
  FileDescriptor pipe_;  // to it, for words
  std::unique_ptr<PatientWriter> words_;
  bool watching_ = false;  // whether the disk takes anything
  bool given_up_ = false;
  bool ending_ = false;
  bool ended_ = false;
  std::uint64_t lost_bytes_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// A log file, written to until its disk is full and closed like any other. If its size is limited,
// a full file becomes <path>.1, replacing an earlier one, and a new one begins: at least that much
// is kept, and at most twice as much.
class LogFile {
 public:
  LogFile() = default;  // none is kept

  // Keeps none where the path is empty; false with an errno where it cannot be had. An earlier one
  // is emptied or continued.
  bool open(const std::string& path, bool emptied, std::uint64_t bytes_max = 0);
  void close() { file_.reset(); }
  explicit operator bool() const { return bool(file_); }
  int descriptor() const { return file_.get(); }

  // The first time something cannot be written, `complain` is told the errno.
  using Complain = std::function<void(int error_number)>;
  void write(std::string_view bytes, const Complain& complain);

 private:
  bool write_all(std::string_view bytes, const Complain& complain);
  bool rotate(const Complain& complain);
  bool refused(int error_number, const Complain& complain);

  FileDescriptor file_;
  std::string path_;
  std::uint64_t bytes_ = 0;      // in it
  std::uint64_t bytes_max_ = 0;  // 0: no limit
  bool complained_ = false;
};

}  // namespace cpprun::io

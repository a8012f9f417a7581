// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/output/io/attempt_files.h"
#include "launcher/output/last_lines.h"
#include "launcher/output/line_splitter.h"
#include "proto/clock.h"

namespace cpprun::io {

// One stream of one worker that passes here, through a pipe or a pseudo-terminal.
struct WorkerStream : std::enable_shared_from_this<WorkerStream> {
  WorkerStream(asio::io_context& context, int read_end)
      : pipe(context, read_end), show_timer(context) {}

  asio::posix::stream_descriptor pipe;
  int speaker = 0;
  std::size_t console = 0;  // 0: stdout
  std::string prefix;
  StreamFiles files;
  std::vector<std::string> duplicate_words;
  bool is_terminal = false;       // the pipe is our end of a pseudo-terminal
  bool as_it_is = false;          // every byte at once, without a prefix
  bool heard = true;              // on the console
  bool paused = false;            // until the console, or the files, have room
  asio::steady_timer show_timer;  // for a line that stays unfinished
  bool is_showing = false;        // it is set
  LineSplitter splitter;
  LastLines last;
  std::optional<TimePoint> spoke_at = {};  // when words of it came last
};

}  // namespace cpprun::io

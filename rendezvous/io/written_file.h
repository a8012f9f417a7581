// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A file that FileWriterProcess writes, on a disk that may be full. Its calls may block.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// Whether the error may go away if a pipe is read or disk space is freed.
bool waiting_helps(int error_number);

class WrittenFile {
 public:
  // What happens to bytes that cannot be written.
  enum class OnError {
    drop,        // they are lost
    mark_gap,    // they are lost, and a note in the file says how many as soon as there is room
    keep_lines,  // each write is one line, which stays whole and waits until there is room
  };
  struct Plan {
    std::string path = {};
    int descriptor = -1;       // or of a file that is open
    bool is_emptied = false;   // false: append
    bool passed_back = false;  // opened, but written by another process
    // If the size is limited, a full file is renamed to <path>.1, replacing an earlier one, and a
    // new file begins. So about the last `bytes_max` bytes are always kept, and at most twice as
    // much. 0: no limit.
    std::uint64_t bytes_max = 0;
    OnError on_error = OnError::drop;
  };
  struct Callbacks {
    // The errno of the first failed write; unless bytes are dropped, of the first one each time
    // after successful writes.
    std::function<void(int error_number)> trouble;
    // Pauses before the next attempt to write a line. False: the attempt before was the last.
    std::function<bool()> pause = {};
  };

  // Gives 0 or errno. Opening a pipe waits for its reader.
  int open(Plan plan);
  // False: nothing more can be written.
  bool write(std::string_view bytes, const Callbacks& callbacks);

  int descriptor() const { return file_.get(); }
  void close() { file_.reset(); }

 private:
  int open_file(bool is_emptied);
  bool put(std::string_view bytes, const Callbacks& callbacks);
  bool rotate(const Callbacks& callbacks);
  bool close_gap();
  bool write_line(std::string_view line, const Callbacks& callbacks);
  int try_line(std::string_view line) const;
  bool failed(int error_number, const Callbacks& callbacks);

  Plan plan_;
  FileDescriptor file_;
  std::uint64_t bytes_ = 0;  // current size
  std::size_t lost_ = 0;     // bytes since the last successful write, to be noted in the file
  int error_number_ = 0;     // of the failure that was reported; 0: none
};

}  // namespace cpprun

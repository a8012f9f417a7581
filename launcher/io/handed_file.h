// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A file that a side process has opened for us, because its disk may hang.

#include <optional>

#include "proto/clock.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

struct HandedFile {
  int number = 0;        // which of those that were asked for
  int error_number = 0;  // errno; 0 where nothing is wrong
  FileDescriptor file;   // where it is handed over at all
};

// The two ends of a way for them, each message whole.
struct HandedFileWay {
  FileDescriptor mine;
  FileDescriptor theirs;
};
std::optional<HandedFileWay> make_way();

void hand(int socket, int number, int error_number, int file = -1);

// The next one, waited for until then; nothing where none comes.
std::optional<HandedFile> take_handed(int socket, TimePoint deadline);
// The same without waiting; `ended` where nobody is at the other end any more.
std::optional<HandedFile> take_handed_now(int socket, bool& ended);

}  // namespace cpprun::io

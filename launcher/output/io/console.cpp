// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/console.h"

#include <sys/stat.h>

namespace cpprun::io {

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

void Console::write(int speaker, std::string_view prefix, const Piece& piece) {
  std::string text;
  mux_.add(speaker, prefix, piece, text);
  writer_.write(text);
}

}  // namespace cpprun::io

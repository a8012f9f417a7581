// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One of cpprun's own output streams, shared by several speakers whose lines never mix. Writing
// never blocks: what cannot be written yet waits in a queue, and callers check `full` and pause.

#include <asio/io_context.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/output/line_mux.h"
#include "rendezvous/io/stream_writer.h"

namespace cpprun::io {

// Whether two descriptors are one file, pipe, socket or terminal.
bool same_file(int a, int b);

class Console {
 public:
  using Callbacks = PatientWriter::Callbacks;

  // `descriptor` stays the caller's.
  Console(asio::io_context& context, int descriptor, Callbacks callbacks)
      : writer_(context, descriptor, std::move(callbacks)) {}

  // Writes at once what the reader takes, and queues the rest.
  void write(int speaker, std::string_view prefix, const Piece& piece);

  bool full() const { return writer_.full(); }
  bool never_blocks() const { return writer_.never_blocks(); }
  bool empty() const { return writer_.empty(); }

 private:
  PatientWriter writer_;
  LineMux mux_;
};

}  // namespace cpprun::io

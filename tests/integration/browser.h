// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A headless Chromium, controlled through its DevTools protocol: JSON over two pipes, so that
// neither a port nor a WebSocket library is needed. It reaches no address but 127.0.0.1. Waits
// happen within the page, which is notified when it changes.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/io/file_descriptor.h"
#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace cpprun::integration {

// Why no browser is available here; empty if one is. CPPRUN_CHROMIUM names a program other than
// chromium.
std::string no_browser();

class Browser {
 public:
  Browser();
  // Asks Chromium to exit, and kills what remains.
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void open(const std::string& address);
  // The value of that JavaScript expression; of a promise, its result.
  nlohmann::json value_of(const std::string& expression);
  // Waits until the expression is true on the page; returns when it was, in milliseconds since
  // 1970.
  double until(const std::string& claim);
  // Starts waiting for it, so that its cause can follow; `seen` returns when it became true.
  void look_out_for(const std::string& claim);
  double seen();
  // Presses a key in the focused element, as a person would.
  void press(const std::string& key);
  // The width of the page in pixels, and whether the system uses a dark theme.
  void show(int width, int height, bool dark);
  // A PNG of the whole page, in that file.
  void take_picture(const std::string& path);

 private:
  nlohmann::json ask(const std::string& method, const nlohmann::json& parameters);

  Directory directory_;
  FileDescriptor to_;
  FileDescriptor from_;
  Command command_;
  std::string heard_;
  std::string session_;
  int asked_ = 0;
};

}  // namespace cpprun::integration

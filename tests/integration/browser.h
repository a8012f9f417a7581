// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A real Chromium without a window, told what to do over its DevTools protocol: JSON through two
// pipes of its own, so that neither a port nor a library for WebSockets is needed. It reaches no
// address but 127.0.0.1. Whoever waits, waits within the page, which is told when it changes.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/io/file_descriptor.h"
#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace cpprun::integration {

// Why there is none here; empty where one is. CPPRUN_CHROMIUM names another program than chromium.
std::string no_browser();

class Browser {
 public:
  Browser();
  // Asks it to end, and ends whoever is left.
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void open(const std::string& address);
  // What that JavaScript comes to, of a promise what it promises.
  nlohmann::json value_of(const std::string& expression);
  // Waits until that is true of the page, and says when it was, in milliseconds since 1970.
  double until(const std::string& claim);
  // Begins to wait for that, so that what is to cause it comes after; `seen` says when it was.
  void look_out_for(const std::string& claim);
  double seen();
  // Presses a key where the focus is, as a person would.
  void press(const std::string& key);
  // How wide the page is, in pixels, and whether the system is dark.
  void show(int width, int height, bool dark);
  // Of the whole page, as a PNG in that file.
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

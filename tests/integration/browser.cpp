// SPDX-License-Identifier: BSD-3-Clause
#include "tests/integration/browser.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun::integration {

namespace {

using nlohmann::json;

std::string program() {
  const auto named = from_build("CPPRUN_CHROMIUM");
  return named.empty() ? "chromium" : named;
}

// Opened for reading and writing, so that neither side waits for the other.
FileDescriptor fifo(const std::string& path) {
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  return FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

// The user namespace sandbox is not available as root or in a container; only our own pages are
// loaded.
Words words_in(const Directory& directory) {
  const std::string script =
      "exec \"$1\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run "
      "--disable-background-networking --disable-component-update --disable-sync --disable-quic "
      "--disable-extensions --host-resolver-rules='MAP * ~NOTFOUND , EXCLUDE 127.0.0.1' "
      "--remote-debugging-pipe --hide-scrollbars --window-size=1000,800 "
      "--user-data-dir=\"$2/profile\" about:blank 3<\"$2/to\" 4>\"$2/from\"";
  return {"sh", "-c", script, "sh", program(), directory.path()};
}

std::string bytes_of_base64(const std::string& text) {
  static constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char letter : text) {
    const auto value = letters.find(letter);
    if (value == std::string_view::npos) break;  // the padding
    bits = bits << 6 | static_cast<unsigned>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

// Checks again after each change of the page; an expression that throws counts as false.
std::string promise_of(const std::string& claim) {
  return "new Promise(done => { const look = () => { try { if (!(" + claim +
         ")) return false; } catch { return false; } done(Date.now()); return true; };"
         " if (look()) return; const each = new MutationObserver(() => { if (look())"
         " each.disconnect(); }); each.observe(document, {subtree: true, childList: true,"
         " characterData: true, attributes: true}); })";
}

}  // namespace

std::string no_browser() {
  if (run({"sh", "-c", "command -v \"$1\"", "sh", program()}).code == 0) return "";
  return "no " + program() + " is here; ./dev test --browser installs it";
}

Browser::Browser()
    : to_(fifo(directory_.path() + "/to")),
      from_(fifo(directory_.path() + "/from")),
      command_(words_in(directory_), {.variables = {{"HOME", directory_.path()}}}) {
  REQUIRE(to_);
  REQUIRE(from_);
  const json page = ask("Target.createTarget", {{"url", "about:blank"}});
  const json attached =
      ask("Target.attachToTarget", {{"targetId", page["targetId"]}, {"flatten", true}});
  session_ = attached["sessionId"].get<std::string>();
  ask("Page.enable", json::object());
}

Browser::~Browser() {
  static constexpr std::string_view bye = "{\"id\":0,\"method\":\"Browser.close\"}";
  // Up to the NUL that ends a message.
  static_cast<void>(::write(to_.get(), bye.data(), bye.size() + 1));
  command_.wait_for_exit();
}

json Browser::ask(const std::string& method, const json& parameters) {
  json message = {{"id", ++asked_}, {"method", method}, {"params", parameters}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump();
  REQUIRE(write_all(to_.get(), std::string_view(text.c_str(), text.size() + 1)));
  for (;;) {
    for (auto end = heard_.find('\0'); end != std::string::npos; end = heard_.find('\0')) {
      const json answer = json::parse(heard_.substr(0, end));
      heard_.erase(0, end + 1);
      if (answer.value("id", 0) != asked_) continue;  // an event, which has no waiter
      REQUIRE_MESSAGE(answer.contains("result"), method, ": ", answer.dump());
      return answer["result"];
    }
    static std::array<char, 64 * 1024> chunk;
    pollfd one{from_.get(), POLLIN, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::chrono::milliseconds(timeout).count()));
    REQUIRE_MESSAGE(ready == 1, method, " was not answered: ", text.substr(0, 500));
    const ssize_t count = ::read(from_.get(), chunk.data(), chunk.size());
    REQUIRE(count > 0);
    heard_.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

void Browser::open(const std::string& address) {
  ask("Page.navigate", {{"url", address}});
}

json Browser::value_of(const std::string& expression) {
  const json answer =
      ask("Runtime.evaluate",
          {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
  REQUIRE_MESSAGE(!answer.contains("exceptionDetails"), expression, ": ", answer.dump());
  return answer["result"].value("value", json());
}

double Browser::until(const std::string& claim) {
  return value_of(promise_of(claim)).get<double>();
}

void Browser::look_out_for(const std::string& claim) {
  value_of("window.seen = " + promise_of(claim) + "; true");
}

double Browser::seen() {
  return value_of("window.seen").get<double>();
}

void Browser::press(const std::string& key) {
  for (const char* type : {"keyDown", "keyUp"}) {
    ask("Input.dispatchKeyEvent", {{"type", type}, {"key", key}});
  }
}

void Browser::show(int width, int height, bool dark) {
  ask("Emulation.setDeviceMetricsOverride",
      {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
  const json scheme = {{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}};
  ask("Emulation.setEmulatedMedia", {{"features", json::array({scheme})}});
}

void Browser::take_picture(const std::string& path) {
  const json answer =
      ask("Page.captureScreenshot", {{"format", "png"}, {"captureBeyondViewport", true}});
  std::ofstream(path, std::ios::binary) << bytes_of_base64(answer["data"].get<std::string>());
}

}  // namespace cpprun::integration

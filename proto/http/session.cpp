// SPDX-License-Identifier: BSD-3-Clause
#include "proto/http/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <cstdint>
#include <limits>
#include <optional>

#include "proto/http/bounds.h"
#include "proto/text.h"

namespace cpprun::http {

namespace {

namespace beast = boost::beast::http;
using Parser = beast::request_parser<beast::empty_body>;

constexpr std::size_t request_bytes_max = bounds::http_head_bytes_max + bounds::http_body_bytes_max;

// Beast's own serializer writes the same, but makes the program 100 KB larger.
std::string head_of(const Response& response, bool closes) {
  const auto reason = beast::obsolete_reason(beast::int_to_status(response.status));
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", response.status,
                                 std::string_view(reason.data(), reason.size()), response.type);
  head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
  for (const auto& [name, value] : response.fields) head += fmt::format("{}: {}\r\n", name, value);
  if (!response.goes_on) head += fmt::format("Content-Length: {}\r\n", response.body.size());
  return head + (closes ? "Connection: close\r\n\r\n" : "\r\n");
}

// The end of the head at the start of these bytes; empty: incomplete. Two line ends in a row end it
// even without carriage returns, so that a client with wrong line ends gets its error at once.
std::optional<std::size_t> end_of_head(std::string_view bytes, std::size_t from) {
  for (auto at = bytes.find('\n', from); at != std::string_view::npos;
       at = bytes.find('\n', at + 1)) {
    const std::string_view rest = bytes.substr(at + 1, 2);
    if (rest.starts_with("\n")) return at + 2;
    if (rest == "\r\n") return at + 3;
  }
  return std::nullopt;
}

// Converts Beast's view, whose type depends on the version, to the standard's.
template <class View>
std::string_view view_of(const View& text) {
  return {text.data(), text.size()};
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char letter) { return std::isdigit(letter) != 0; });
}

bool has_bare_newline(std::string_view head) {
  for (auto at = head.find('\n'); at != std::string_view::npos; at = head.find('\n', at + 1)) {
    if (at == 0 || head[at - 1] != '\r') return true;
  }
  return false;
}

struct Fault {
  unsigned status = 0;  // 0: none
  std::string_view why = {};
};

Fault fault_of(const boost::system::error_code& error) {
  if (error == beast::error::bad_version) return {505, "only HTTP 1.0 and 1.1 are supported"};
  if (error == beast::error::header_limit) return {431, "the headers are too long"};
  return {400, "not an HTTP request"};
}

// Rejects what Beast accepts, but two parsers could read differently, and what is not supported
// here.
Fault fault_of(const Parser& parser, std::string_view head) {
  const auto& message = parser.get();
  if (message.count(beast::field::transfer_encoding) > 0) {
    return {501, "chunked request bodies are not supported"};
  }
  // Beast reads "3, 3" as three.
  const auto length = message.find(beast::field::content_length);
  const bool has_length = length != message.end();
  if (message.count(beast::field::content_length) > 1 ||
      (has_length && !is_number(view_of(length->value())))) {
    return {400, "invalid or repeated Content-Length"};
  }
  if (message.count(beast::field::host) > 1) return {400, "several Host headers"};
  if (message.version() >= 11 && message.count(beast::field::host) == 0) {
    return {400, "no Host header"};
  }
  if (message.count(beast::field::expect) > 0) return {417, "the Expect header is not supported"};
  if (head.find("\n ") != std::string_view::npos || head.find("\n\t") != std::string_view::npos) {
    return {400, "folded header lines are not supported"};
  }
  const auto body = parser.content_length();
  if (body && *body > bounds::http_body_bytes_max) return {413, "the body is too long"};
  const auto target = view_of(message.target());
  if (target.size() > bounds::http_target_bytes_max) return {414, "the request target is too long"};
  const auto is_printable = [](char letter) { return letter > ' ' && letter <= '~'; };
  if (!target.starts_with('/') || !std::ranges::all_of(target, is_printable)) {
    return {400, "invalid request target"};
  }
  return {};
}

// Empty if it is not an HTTP method. Beast does not know QUERY yet.
std::optional<Method> method_of(beast::verb verb, std::string_view name) {
  if (verb == beast::verb::get) return Method::get;
  if (verb == beast::verb::head) return Method::head;
  if (verb == beast::verb::post) return Method::post;
  const bool is_known = verb != beast::verb::unknown || name == "QUERY";
  return is_known ? std::optional(Method::other) : std::nullopt;
}

// Strips the port; empty if the text after the colon is not a port.
std::optional<std::string_view> without_port(std::string_view host) {
  const auto bracket = host.starts_with('[') ? host.find(']') : 0;
  if (bracket == std::string_view::npos) return std::nullopt;
  const auto colon = host.find(':', bracket);
  if (colon == std::string_view::npos) return host;
  if (!is_number(host.substr(colon + 1))) return std::nullopt;
  return host.substr(0, colon);
}

bool is_ipv6(std::string_view host) {
  if (!host.starts_with('[') || !host.ends_with(']') || host.size() < 4) return false;
  return std::ranges::all_of(host.substr(1, host.size() - 2), [](unsigned char letter) {
    return std::isxdigit(letter) != 0 || letter == ':' || letter == '.';
  });
}

bool is_ipv4(std::string_view host) {
  for (int dots = 0; dots < 3; ++dots) {
    const auto dot = host.find('.');
    if (dot == std::string_view::npos || !is_number(host.substr(0, dot))) return false;
    host.remove_prefix(dot + 1);
  }
  return is_number(host);
}

}  // namespace

std::size_t Session::room() const {
  return is_waiting_ || closes_ ? 0 : request_bytes_max - inbox_.size();
}

void Session::hear(std::string_view bytes) {
  inbox_.append(bytes.substr(0, room()));
}

Session::Step Session::next() {
  if (inbox_.empty() || inbox_.size() < needed_) return NeedMore{};
  const auto end = end_of_head(inbox_, scanned_ < 2 ? 0 : scanned_ - 2);
  scanned_ = inbox_.size();
  if (end.value_or(inbox_.size()) > bounds::http_head_bytes_max) {
    return refuse(431, "the headers are too long");
  }
  if (!end) return NeedMore{};
  const auto head = std::string_view(inbox_).substr(0, *end);
  if (has_bare_newline(head)) return refuse(400, "a header line ends without a carriage return");
  Parser parser;
  parser.header_limit(bounds::http_head_bytes_max);
  // Boost 1.74 rejects every body if there is no limit; the limit is enforced below.
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  boost::system::error_code error;
  parser.put(boost::asio::buffer(head.data(), head.size()), error);
  if (error) {
    const Fault fault = fault_of(error);
    return refuse(fault.status, fault.why);
  }
  if (!parser.is_header_done()) return refuse(400, "not an HTTP request");
  if (const Fault fault = fault_of(parser, head); fault.status != 0) {
    return refuse(fault.status, fault.why);
  }
  const auto method = method_of(parser.get().method(), view_of(parser.get().method_string()));
  if (!method) return refuse(501, "unknown method");
  const std::size_t whole = *end + static_cast<std::size_t>(parser.content_length().value_or(0));
  if (inbox_.size() < whole) {
    needed_ = whole;
    scanned_ = 0;
    return NeedMore{};
  }
  Asked asked{
      {.method = *method,
       .target = std::string(view_of(parser.get().target())),
       .host = std::string(view_of(parser.get()[beast::field::host])),
       .body = inbox_.substr(*end, whole - *end),
       .content_type = std::string(view_of(parser.get()[beast::field::content_type])),
       .origin = parser.get().count(beast::field::origin) > 0
                     ? std::optional<std::string>(view_of(parser.get()[beast::field::origin]))
                     : std::nullopt,
       .last_event_id = std::string(view_of(parser.get()["Last-Event-ID"])),
       .accept = std::string(view_of(parser.get()[beast::field::accept])),
       .authorization = std::string(view_of(parser.get()[beast::field::authorization]))}};
  is_waiting_ = true;
  is_head_ = *method == Method::head;
  closes_ = parser.get().version() < 11 || !parser.get().keep_alive();
  inbox_.erase(0, whole);
  needed_ = 0;
  scanned_ = 0;
  return asked;
}

Session::Refused Session::refuse(unsigned status, std::string_view why) {
  closes_ = true;
  inbox_.clear();
  Response response{.status = status, .body = fmt::format("{}\n", why)};
  return {last_answer(response), std::string(why)};
}

std::string Session::answer(const Response& response) {
  is_waiting_ = false;
  closes_ = closes_ || response.goes_on;
  std::string bytes = head_of(response, closes_);
  if (!is_head_) bytes += response.body;
  return bytes;
}

std::string last_answer(const Response& response) {
  return head_of(response, true) + response.body;
}

bool is_own_host(std::string_view host, const std::vector<std::string>& names) {
  auto name = without_port(host);
  // "node1.example.org." equals "node1.example.org".
  if (name && name->size() > 1 && name->ends_with('.')) name->remove_suffix(1);
  if (!name || name->empty()) return false;
  if (is_ipv4(*name) || is_ipv6(*name) || is_alike(*name, "localhost")) return true;
  return std::ranges::any_of(names, [&](const std::string& own) { return is_alike(*name, own); });
}

}  // namespace cpprun::http

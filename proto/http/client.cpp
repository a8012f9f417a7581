// SPDX-License-Identifier: BSD-3-Clause
#include "proto/http/client.h"

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <utility>

#include "proto/http/bounds.h"

namespace cpprun::http {

namespace {

namespace beast = boost::beast::http;

std::string_view name_of(Method method) {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::head:
      return "HEAD";
    case Method::post:
      return "POST";
    case Method::other:
      break;  // never sent by this client
  }
  return "GET";
}

}  // namespace

std::string to_bytes(const Question& question) {
  std::string bytes = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", name_of(question.method),
                                  question.target, question.host);
  if (!question.is_kept) bytes += "Connection: close\r\n";
  if (!question.authorization.empty()) {
    bytes += fmt::format("Authorization: {}\r\n", question.authorization);
  }
  if (question.method == Method::post) {
    bytes += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n",
                         question.body.size());
  }
  return bytes + "\r\n" + (question.method == Method::post ? question.body : std::string());
}

struct ReplyReader::Inside {
  beast::response_parser<beast::string_body> parser;
  std::string inbox;  // what the parser has not consumed, with what follows
  std::size_t body_bytes_max = 0;
  std::string_view hint = {};
  bool has_begun = false;

  Result<void> why(const boost::system::error_code& error) const {
    if (error == beast::error::body_limit) {
      return failure(fmt::format("the response has more than {} bytes", body_bytes_max));
    }
    if (error == beast::error::header_limit) {
      return failure(fmt::format("the headers of the response have more than {} bytes",
                                 bounds::http_head_bytes_max));
    }
    return failure(fmt::format("the response is not HTTP{}", hint));
  }
};

ReplyReader::ReplyReader(std::size_t body_bytes_max, std::string_view hint)
    : inside_(std::make_unique<Inside>()) {
  inside_->body_bytes_max = body_bytes_max;
  inside_->hint = hint;
  inside_->parser.eager(true);
  inside_->parser.header_limit(bounds::http_head_bytes_max);
  inside_->parser.body_limit(body_bytes_max);
}

ReplyReader::~ReplyReader() = default;
ReplyReader::ReplyReader(ReplyReader&&) noexcept = default;
ReplyReader& ReplyReader::operator=(ReplyReader&&) noexcept = default;

Result<void> ReplyReader::hear(std::string_view bytes) {
  Inside& in = *inside_;
  if (bytes.empty()) return {};
  in.has_begun = true;
  in.inbox += bytes;
  std::size_t taken = 0;
  boost::system::error_code error;
  while (!in.parser.is_done() && taken < in.inbox.size()) {
    const auto rest = std::string_view(in.inbox).substr(taken);
    taken += in.parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
    if (error) break;
  }
  in.inbox.erase(0, taken);
  if (error && error != beast::error::need_more) return in.why(error);
  if (in.parser.is_done() && !in.inbox.empty()) {
    return failure("received data after the end of the response");
  }
  // The parser waits for the end of a line, or of the head, which may never arrive.
  if (in.inbox.size() > 2 * bounds::http_head_bytes_max) return in.why(beast::error::header_limit);
  return {};
}

Result<void> ReplyReader::end() {
  Inside& in = *inside_;
  if (in.parser.is_done()) return {};
  if (!in.has_begun) return failure("connection closed without a response");
  boost::system::error_code error;
  // A body with neither a length nor chunks ends with the connection.
  if (in.parser.is_header_done() && in.inbox.empty()) in.parser.put_eof(error);
  if (error || !in.parser.is_done())
    return failure("connection closed in the middle of the response");
  return {};
}

bool ReplyReader::has_begun() const {
  return inside_->has_begun;
}

bool ReplyReader::has_head() const {
  return inside_->parser.is_header_done();
}

bool ReplyReader::is_whole() const {
  return inside_->parser.is_done();
}

unsigned ReplyReader::status() const {
  return inside_->parser.get().result_int();
}

bool ReplyReader::is_kept() const {
  return inside_->parser.get().keep_alive() && !inside_->parser.get().need_eof();
}

std::string ReplyReader::take_body() {
  inside_->parser.body_limit(inside_->body_bytes_max);  // of a stream, for what follows
  return std::exchange(inside_->parser.get().body(), {});
}

Result<std::vector<std::string>> EventStream::hear(std::string_view bytes) {
  std::vector<std::string> whole;
  unread_ += bytes;
  std::size_t begin = 0;
  for (auto end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n', begin)) {
    auto line = std::string_view(unread_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take_line(line, whole);
    begin = end + 1;
  }
  unread_.erase(0, begin);
  if (unread_.size() + data_.size() > bounds::event_bytes_max) {
    return failure(fmt::format("an event has more than {} bytes", bounds::event_bytes_max));
  }
  return whole;
}

void EventStream::take_line(std::string_view line, std::vector<std::string>& whole) {
  if (line.empty()) {
    if (std::exchange(has_data_, false)) whole.push_back(std::exchange(data_, {}));
    return;
  }
  const auto colon = line.find(':');
  if (line.substr(0, colon) != "data") return;
  auto value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += value;
  has_data_ = true;
}

}  // namespace cpprun::http

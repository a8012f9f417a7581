// SPDX-License-Identifier: BSD-3-Clause
#include "proto/http/reply.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "proto/bounds.h"

namespace cpprun::http {

namespace {

namespace beast = boost::beast::http;

}  // namespace

struct ReplyReader::Inside {
  beast::response_parser<beast::string_body> parser;
  std::string inbox;  // what the parser wants to see once more, with what follows
  std::size_t body_bytes_max;
  bool has_begun = false;

  Result<void> why(const boost::system::error_code& error) const {
    if (error == beast::error::body_limit) {
      return failure(fmt::format("its answer has more than {} bytes", body_bytes_max));
    }
    if (error == beast::error::header_limit) {
      return failure(fmt::format("the head of its answer has more than {} bytes",
                                 bounds::http_head_bytes_max));
    }
    return failure("it does not speak HTTP");
  }
};

ReplyReader::ReplyReader(std::size_t body_bytes_max) : inside_(std::make_unique<Inside>()) {
  inside_->body_bytes_max = body_bytes_max;
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
    return failure("it says more than it was asked");
  }
  // The parser waits for the end of a line, or of a head, and there need not be one.
  if (in.inbox.size() > 2 * bounds::http_head_bytes_max) return in.why(beast::error::header_limit);
  return {};
}

Result<void> ReplyReader::end() {
  Inside& in = *inside_;
  if (in.parser.is_done()) return {};
  if (!in.has_begun) return failure("it closed the connection without an answer");
  boost::system::error_code error;
  // One that has neither a length nor chunks ends there.
  if (in.parser.is_header_done() && in.inbox.empty()) in.parser.put_eof(error);
  if (error || !in.parser.is_done()) return failure("it closed the connection within its answer");
  return {};
}

bool ReplyReader::has_begun() const {
  return inside_->has_begun;
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
  return std::exchange(inside_->parser.get().body(), {});
}

}  // namespace cpprun::http

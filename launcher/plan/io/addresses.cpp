// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/addresses.h"

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <memory>
#include <utility>

namespace cpprun::io {

namespace {

using asio::ip::tcp;

std::vector<std::string> literals_of(const tcp::resolver::results_type& results) {
  std::vector<std::string> addresses;
  for (const auto& each : results) {
    auto address = each.endpoint().address().to_string();
    const bool known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
    if (!known) addresses.push_back(std::move(address));
  }
  return addresses;
}

}  // namespace

std::optional<std::string> literal_address(const std::string& host) {
  asio::error_code not_literal;
  const auto literal = asio::ip::make_address(host, not_literal);
  if (not_literal) return std::nullopt;
  return literal.to_string();
}

std::vector<std::string> addresses_of(const std::string& host) {
  if (const auto literal = literal_address(host)) return {*literal};
  asio::io_context resolving;
  asio::error_code unknown;  // treated as not this machine's; the later connect reports the reason
  return literals_of(tcp::resolver{resolving}.resolve(host, "", unknown));
}

void look_up(asio::io_context& context, const std::string& host,
             std::function<void(const Result<std::vector<std::string>>&)> found) {
  if (const auto literal = literal_address(host)) {
    asio::post(context, [found = std::move(found), literal = *literal] {
      found(std::vector<std::string>{literal});
    });
    return;
  }
  auto resolver = std::make_shared<tcp::resolver>(context);
  resolver->async_resolve(
      host, "",
      [resolver, found = std::move(found)](const asio::error_code& error,
                                           const tcp::resolver::results_type& results) {
        if (error || results.empty()) {
          found(failure(error ? error.message() : "the name has no address"));
        } else {
          found(literals_of(results));
        }
      });
}

}  // namespace cpprun::io

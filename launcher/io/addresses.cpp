#include "launcher/io/addresses.h"

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "launcher/endpoint.h"

namespace cpprun::io {

std::vector<std::string> addresses_of(const std::string& host) {
  asio::error_code not_literal;
  const auto literal = asio::ip::make_address(host, not_literal);
  if (!not_literal) return {literal.to_string()};
  asio::io_context resolving;
  asio::error_code unknown;  // Then it is not this machine's, and the dial says why.
  std::vector<std::string> addresses;
  for (const auto& each : asio::ip::tcp::resolver{resolving}.resolve(host, "", unknown)) {
    addresses.push_back(each.endpoint().address().to_string());
  }
  return addresses;
}

bool means_this_machine(const std::string& host, const std::string& own_name,
                        const std::vector<NetworkInterface>& interfaces) {
  if (is_loopback(host) || host == own_name) return true;
  const std::vector<std::string> wanted = addresses_of(host);
  return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& address) {
    return is_loopback(address) ||
           std::any_of(interfaces.begin(), interfaces.end(), [&](const NetworkInterface& each) {
             return std::find(each.addresses.begin(), each.addresses.end(), address) !=
                    each.addresses.end();
           });
  });
}

}  // namespace cpprun::io

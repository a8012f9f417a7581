// SPDX-License-Identifier: BSD-3-Clause
// A program that uses a store: embed_client PORT
#include <cpprun/store_client.h>

#include <cstdio>
#include <cstdlib>

int main(int, char** arguments) {
  const auto port = static_cast<std::uint16_t>(std::atoi(arguments[1]));
  auto client = cpprun::StoreClient::open({"127.0.0.1", port});
  if (!client) return std::fprintf(stderr, "%s\n", client.error().c_str()), 1;
  client->set("greeting", "hello");
  std::printf("%s, visitor %ld\n", client->get("greeting")->c_str(),
              static_cast<long>(*client->add("visitors", 1)));
}

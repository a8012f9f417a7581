// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the functions of <cpprun/store.h> share: their objects, and the checks of their arguments.

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/client/io/store_client.h"
#include "rendezvous/client/store_error.h"
#include "rendezvous/embed/io/c_frame.h"
#include "rendezvous/embed/io/public/store.h"
#include "rendezvous/store/io/store_server.h"

struct cpprun_store_server {
  std::unique_ptr<cpprun::StoreServer> server;
  std::string address;
};

struct cpprun_store_service {
  std::unique_ptr<cpprun::StoreService> service;
  std::string address;
};

namespace cpprun::c {

// One call of the C interface, for error texts.
template <class Handle>
struct Call {
  const char* function;
  Handle* client;
};
template <class Handle>
Call(const char*, Handle*) -> Call<Handle>;

// An argument of the call, under its name in the header.
struct Argument {
  std::string name;
  const void* pointer;
};

template <class Handle>
std::string is_null(const Call<Handle>& call, const std::string& argument) {
  return null_pointer_text(call.function, argument);
}

// Throws if the pointer is null; guarded() turns that into a failure.
template <class Handle>
std::string_view bytes(const Call<Handle>& call, const Argument& value, std::size_t size) {
  if (size == 0) return "";
  if (value.pointer == nullptr) throw std::invalid_argument(is_null(call, value.name));
  return {static_cast<const char*>(value.pointer), size};
}

template <class Handle>
std::vector<std::string> keys_of(const Call<Handle>& call, const char* const* keys,
                                 std::size_t count) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < count; ++at) {
    const std::string name = "keys[" + std::to_string(at) + "]";
    if (keys[at] == nullptr) throw std::invalid_argument(is_null(call, name));
    texts.emplace_back(keys[at]);
  }
  return texts;
}

// Calls `body` with the client, unless one of the `needed` pointers is null.
template <class Handle, class Body>
auto with(const Call<Handle>& call, Body body, std::initializer_list<Argument> needed)
    -> decltype(body(call.client->client)) {
  if (call.client == nullptr) return failure(Code::bad_argument, is_null(call, "client"));
  for (const Argument& argument : needed) {
    if (argument.pointer == nullptr) {
      return failure(Code::bad_argument, is_null(call, argument.name));
    }
  }
  return body(call.client->client);
}

// A pointer to an empty array may be null.
template <class Pointer>
const void* needed_for(std::size_t count, const Pointer* pointer) {
  return count == 0 ? "" : static_cast<const void*>(pointer);
}

// The options as the library has them. `read` receives the struct; its handles name a store in this
// process.
StoreResult<StoreClientOptions> read_client_options(const char* function,
                                                    const cpprun_store_client_options* options,
                                                    cpprun_store_client_options& read);
// Null: the store is elsewhere.
OpenStore* store_of(const cpprun_store_client_options& read);

}  // namespace cpprun::c

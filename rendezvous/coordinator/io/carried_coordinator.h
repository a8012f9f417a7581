// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A CoordinatorServer with one job between two programs in one process (CarriedCoordinator).

#include <cstdint>
#include <string>
#include <vector>

#include "proto/rank.h"
#include "rendezvous/peer_address.h"

namespace cpprun {

// What another program in this process needs to continue as the job's coordinator. Its descriptors
// are those of this process. Links of other nodes and connections of tools end; the nodes connect
// again within their lease.
struct CarriedCoordinator {
  struct Client {
    ConnectionId id;  // the name of the client in `store`
    int socket = -1;
    PeerAddress peer;
    std::uint64_t conversation = 0;  // see StoreSessions::Shown
    bool is_local = false;           // came through local_port
    friend bool operator==(const Client&, const Client&) = default;
  };

  std::vector<int> port = {};           // the listening sockets
  std::vector<std::string> hosts = {};  // see Listening
  std::vector<int> local_port = {};     // those of the port for local workers; empty: there is none
  std::string record = {};              // of a JobRecord
  std::string store = {};               // the image of the job's store, as a StoreLog
  std::vector<Client> clients = {};     // with a socket
  bool store_was_asked = false;
  int door = -1;  // the control socket; -1: there is none
  std::string door_path = {};
  friend bool operator==(const CarriedCoordinator&, const CarriedCoordinator&) = default;
};

}  // namespace cpprun

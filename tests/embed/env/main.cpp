// SPDX-License-Identifier: BSD-3-Clause
// A worker without LibTorch: the ranks count each other at the launcher's store.
#include <cpprun/store_client.h>
#include <cpprun/worker.h>

#include <cstdio>
#include <stdexcept>

int main() {
  return cpprun::run([](const cpprun::Context& context) {
    cpprun::Heartbeat heartbeat(context);
    auto store = cpprun::StoreClient::open({context.store.address, context.store.port});
    if (!store) throw std::runtime_error(store.error());
    const auto here = store->add("here", 1);
    const auto all = store->barrier("all", context.world_size);
    if (!here || !all) throw std::runtime_error(here.error() + all.error());
    heartbeat.beat();
    std::printf("rank %d of %d\n", context.rank.value, context.world_size);
    return 0;
  });
}

# SPDX-License-Identifier: BSD-3-Clause
"""torchrun's own rendezvous without torchrun: so many agents' handlers as threads of one process.

    c10d_crowd.py PORT NODES RUN_ID

Prints "ready", waits for a line, lets every handler connect and meet, and prints the monotonic
clock's reading, in seconds, before the first and after the last of them, and the number of those
that have a rank. The handlers, the backend and the parameters are what torchrun makes of
--rdzv-backend=c10d; without torchrun's start and the workers.
"""

import logging
import os
import sys
import threading
import time

from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler


def meet(port, nodes, run_id, spans):
    parameters = RendezvousParameters(
        backend="c10d",
        endpoint=f"127.0.0.1:{port}",
        run_id=run_id,
        min_nodes=nodes,
        max_nodes=nodes,
        local_addr="127.0.0.1",
        is_host=False,
    )
    begun = time.monotonic()
    backend, store = create_backend(parameters)
    handler = create_handler(store, backend, parameters)
    info = handler.next_rendezvous()
    assert info.world_size == nodes
    spans.append((begun, time.monotonic()))


def main():
    port, nodes = int(sys.argv[1]), int(sys.argv[2])
    logging.disable(logging.CRITICAL)
    spans = []
    threads = [
        threading.Thread(target=meet, args=(port, nodes, sys.argv[3], spans), daemon=True)
        for _ in range(nodes)
    ]
    print("ready", flush=True)
    sys.stdin.readline()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    begun = min((span[0] for span in spans), default=0)
    ended = max((span[1] for span in spans), default=0)
    print(f"{begun:.6f} {ended:.6f} {len(spans)}", flush=True)
    os._exit(0)  # without closing each handler


if __name__ == "__main__":
    main()

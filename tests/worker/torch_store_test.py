#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts cpprund on a free port and lets LibTorch's own client do every operation against it.
Usage: torch_store_test.py path/to/cpprund path/to/torch_store_client"""

import re
import subprocess
import sys

daemon = subprocess.Popen(
    [sys.argv[1], "--host", "127.0.0.1", "--port", "0"],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    stdin=subprocess.DEVNULL,
    text=True,
)
try:
    # The line that names the port, among those of the log; CTest bounds the wait.
    for line in daemon.stdout:
        print(line, end="", flush=True)
        port = re.search(r"listening on .*:(\d+)$", line)
        if port:
            break
    else:
        sys.exit("torch_store_test: cpprund ended without naming its port")
    client = subprocess.run([sys.argv[2], "127.0.0.1", port[1]], timeout=120, check=False)
    if daemon.poll() is not None:
        sys.exit(f"torch_store_test: cpprund ended meanwhile, with {daemon.returncode}")
    sys.exit(client.returncode)
finally:
    daemon.terminate()
    try:
        print(daemon.communicate(timeout=20)[0], end="")
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()

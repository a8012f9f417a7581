#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A worker for the Python of a fresh venv: prints its ranks, and connects to the store of its
job."""

import os
import socket

address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
with socket.create_connection(address, timeout=60):
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}", flush=True)

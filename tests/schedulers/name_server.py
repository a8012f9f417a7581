#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A name server for tests of a cluster, as its DNS would be:

    name_server.py ADDRESS NAMES.json

answers at ADDRESS, port 53, with the current content of the file: {"name": ["10.0.0.1", …]}; other
names do not exist. Only IPv4, in one datagram. Prints "ready" when it listens."""

import json
import socket
import struct
import sys

NO_ERROR, NO_SUCH_NAME = 0, 3
HOST_ADDRESS = 1


def question_of(query):
    """The name, its type, and where the question ends."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    kind = struct.unpack("!H", query[at + 1:at + 3])[0]
    return ".".join(labels).lower(), kind, at + 5


def answer(query, names):
    name, kind, end = question_of(query)
    addresses = names.get(name, []) if kind == HOST_ADDRESS else []
    flags = 0x8180 | (NO_ERROR if name in names else NO_SUCH_NAME)
    head = query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0)
    records = [struct.pack("!HHHIH", 0xC00C, HOST_ADDRESS, 1, 1, 4) + socket.inet_aton(each)
               for each in addresses]
    return head + query[12:end] + b"".join(records)


def main():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((sys.argv[1], 53))
        print("ready", flush=True)
        while True:
            query, client = server.recvfrom(512)
            with open(sys.argv[2], encoding="utf-8") as file:
                names = json.load(file)
            server.sendto(answer(query, names), client)


main()

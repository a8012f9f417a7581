#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The store of the Python package: python_store_test.py LIBRARY PACKAGES."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import unittest

LIBRARY, PACKAGES = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, PACKAGES)
os.environ["CPPRUN_STORE_LIBRARY"] = LIBRARY

from cpprun import store  # noqa: E402

SECRET = "cpprun1:one:" + "0123456789abcdef" * 4


class BlockingTest(unittest.TestCase):
    def test_every_request_of_a_client(self):
        with store.Server() as server:
            self.assertEqual(server.address, f"127.0.0.1:{server.port}")
            for options in ({"port": server.port}, {"server": server}):
                prefix = f"/{list(options)[0]}/"
                with store.Client(**options, key_prefix=prefix) as client:
                    client.set("k", b"a\0b")
                    client.append("k", "c")
                    self.assertEqual(client.get("k"), b"a\0bc")
                    self.assertEqual(client.find("k"), b"a\0bc")
                    self.assertIsNone(client.find("none"))
                    self.assertEqual(client.add("n", 5), 5)
                    self.assertEqual(client.compare_set("c", "", "x"), b"x")
                    self.assertTrue(client.check(["k", "n"]))
                    self.assertFalse(client.check(["k", "none"]))
                    client.wait(["k", "n"])
                    client.barrier("b", 1)
                    client.queue_push("q", b"1")
                    self.assertEqual(client.queue_length("q"), 1)
                    self.assertEqual(client.queue_pop("q"), b"1")
                    self.assertIsNone(client.queue_pop("q"))
                    self.assertEqual(sorted(client.list_keys()), ["b", "c", "k", "n"])
                    self.assertTrue(client.delete_key("k"))
                    self.assertFalse(client.delete_key("k"))
                    self.assertFalse(client.broken)

    def test_failures_have_types_codes_and_texts(self):
        server = store.Server()
        client = store.Client(port=server.port)
        with self.assertRaises(store.Timeout) as late:
            client.get("never", timeout=0.02)
        self.assertEqual((str(late.exception), late.exception.code),
                         ("wait for /never timed out", 1))
        self.assertIsInstance(late.exception, TimeoutError)
        for call in (lambda: client.set("a\0b", ""), lambda: client.set("k" * 9000, ""),
                     lambda: client.wait("a string")):
            with self.assertRaises(ValueError):
                call()
        port = server.port
        server.close()
        server.close()
        with self.assertRaises(ConnectionError):
            client.get("k")
        self.assertTrue(client.broken)
        with self.assertRaises(ConnectionRefusedError):
            store.Client(port=port, connect_timeout=0.02)
        client.close()
        for call in (lambda: client.get("k"), lambda: server.port):
            with self.assertRaises(store.Closed):
                call()

    def test_another_thread_can_interrupt_a_call(self):
        with store.Server() as server, store.Client(port=server.port) as client, \
                store.Client(server=server) as local:
            local.set("ready", "")
            thread = threading.Timer(0, client.interrupt)
            thread.start()
            with self.assertRaises(store.Interrupted):
                client.get("never")
            thread.join()

    def test_callbacks_of_a_server(self):
        asked, lines, admitted = [], [], []
        called = threading.Event()

        def log(line):
            lines.append(line)
            called.set()

        def admit(client):
            asked.append(client)
            return bool(admitted)

        with store.Server(admit=admit, log=log) as server:
            with self.assertRaises(store.Refused):
                store.Client(port=server.port, connect_timeout=0.1)
            admitted.append(True)
            self.assertTrue(called.wait(30))
            self.assertIn("not admitted", lines[0])
            store.Client(port=server.port).close()
            self.assertTrue(asked[0].startswith("127.0.0.1:"))

    def test_watches_and_leases(self):
        seen, deleted = [], threading.Event()

        def watcher(change, key, value):
            seen.append((change, key, value))
            if change == 2:
                deleted.set()

        space = store.Namespace("/alive/", ends_with_client=True)
        with store.Server(namespaces=[space]) as server, store.Client(server=server) as local:
            local.watch("alive/", watcher)
            with store.Client(port=server.port) as client:
                client.set("alive/a", b"1")
                client.get("alive/a")
                self.assertEqual(list(local.each("alive/")), [("alive/a", b"1")])
            self.assertTrue(deleted.wait(30))
            self.assertEqual(seen, [(1, "alive/a", b"1"), (2, "alive/a", b"")])

    def test_a_secret(self):
        with store.Server(secret=SECRET) as server:
            with store.Client(port=server.port, secret=SECRET) as client:
                self.assertEqual(client.add("n", 1), 1)
            with self.assertRaises(store.Refused):
                store.Client(port=server.port, connect_timeout=0.1)
        with self.assertRaises(ValueError):
            store.Server(secret="none")

    def test_a_library_that_is_missing_is_named(self):
        ended = subprocess.run(
            [sys.executable, "-c", "import cpprun.store; cpprun.store.Server()"],
            env=dict(os.environ, PYTHONPATH=PACKAGES, CPPRUN_STORE_LIBRARY="/nowhere/x.so"),
            capture_output=True, text=True, timeout=60)
        self.assertIn("ImportError: cannot load /nowhere/x.so", ended.stderr)


class AsyncTest(unittest.TestCase):
    def run_with(self, body, **options):
        async def main():
            with store.Server(**options) as server:
                async with store.AsyncClient(port=server.port) as client:
                    await body(server, client)
        asyncio.run(main())
        gc.collect()

    def test_tasks_share_a_client(self):
        async def body(server, client):
            waiting = [asyncio.ensure_future(client.get(f"k{each}")) for each in range(10)]
            self.assertEqual(await client.add("n", 2), 2)
            self.assertIsNone(await client.find("none"))
            self.assertEqual(await client.compare_set("c", "", "x"), b"x")
            for each in range(10):
                await client.set(f"k{each}", str(each))
            self.assertEqual(await asyncio.gather(*waiting), [b"%d" % each for each in range(10)])
            await client.wait(["k1", "c"])
            await client.barrier("b", 1)
            self.assertTrue(await client.delete_key("c"))
            self.assertFalse(client.broken)
        self.run_with(body)

    def test_cancelled_and_late_requests_leave_the_client_usable(self):
        async def body(server, client):
            with self.assertRaises(store.Timeout):
                await client.get("never", timeout=0.02)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(client.get("never"), 0.02)
            self.assertEqual(await client.add("n", 1), 1)
            with self.assertRaises(ValueError):
                await client.set("a\0b", "")
        self.run_with(body)

    def test_the_end_of_the_server_or_the_client_ends_requests(self):
        async def body(server, client):
            other = store.AsyncClient(port=server.port)
            waiting = [asyncio.ensure_future(each.get("never")) for each in (client, other)]
            await client.add("n", 1)
            await other.add("n", 1)
            other.close()
            with self.assertRaises(store.Interrupted):
                await waiting[1]
            server.close()
            with self.assertRaises(store.Closed):
                await waiting[0]
            with self.assertRaises(store.Closed):
                await other.get("k")
        self.run_with(body)

    def test_a_watch_ends_with_its_task(self):
        async def body(server, _):
            seen = asyncio.Queue()
            async with store.AsyncClient(server=server) as local:
                watching = asyncio.ensure_future(
                    local.watch("w/", lambda *change: seen.put_nowait(change)))
                await asyncio.sleep(0)  # it begins
                await local.set("w/a", b"1")
                self.assertEqual(await seen.get(), (1, "w/a", b"1"))
                watching.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await watching
                await local.set("w/b", b"1")
                self.assertEqual(await local.get("w/b"), b"1")
                self.assertTrue(seen.empty())
        self.run_with(body)


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()

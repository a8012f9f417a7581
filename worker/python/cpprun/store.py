# SPDX-License-Identifier: BSD-3-Clause
"""A store for Python programs: serves PyTorch's TCPStore, and is a client of one. Without torch.

    with cpprun.store.Server() as server, cpprun.store.Client("127.0.0.1", server.port) as client:
        client.set("greeting", b"hello")
        print(client.get("greeting", timeout=5).decode())

    async with cpprun.store.AsyncClient("127.0.0.1", port) as client:
        print(await client.get("greeting"))  # other tasks run meanwhile

It loads libcpprun_store.so: the file in CPPRUN_STORE_LIBRARY, the one in this package, or that of
the system. Timeouts are in seconds; None stands for that of the client. Keys are str without NUL;
values are bytes, or str in UTF-8. docs/embedding.md has the rules for threads and forks.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int64, c_size_t,
                    c_uint16, c_uint64, c_void_p)
from typing import Any

__all__ = ["AsyncClient", "BadArgument", "Client", "Closed", "Interrupted", "Namespace",
           "Refused", "Server", "StoreError", "Timeout"]


class StoreError(RuntimeError):
    """A call failed. `code`: one of CPPRUN_STORE_… in <cpprun/store.h>."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Timeout(StoreError, TimeoutError):
    """The time of the call is over."""


class Refused(StoreError, ConnectionRefusedError):
    """Nothing listens there, or the server rejects this client."""


class Closed(StoreError, ConnectionError):
    """The connection has ended."""


class Interrupted(StoreError):
    """By interrupt(), close() or a cancelled task."""


class BadArgument(StoreError, ValueError):
    """A mistake of the caller, or a value beyond a limit."""


_ERRORS = {1: Timeout, 2: Refused, 3: Closed, 4: Interrupted, 5: BadArgument, 6: BadArgument}


def _error(message: str, code: int) -> StoreError:
    return _ERRORS.get(code, StoreError)(message, code)


# --- the library ---------------------------------------------------------------------------------

class _Namespace(Structure):
    _fields_ = [("size", c_size_t), ("prefix", c_char_p), ("keys_max", c_uint64),
                ("bytes_max", c_uint64), ("ends_with_client", c_int), ("lease_ms", c_int64)]


_LOG = CFUNCTYPE(None, c_void_p, c_char_p)
_ADMIT = CFUNCTYPE(c_int, c_void_p, c_char_p)
_VISIT = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t)
_WATCHER = CFUNCTYPE(None, c_void_p, c_int, c_void_p, c_size_t, c_void_p, c_size_t)


class _ServerOptions(Structure):
    _fields_ = [("size", c_size_t), ("host", c_char_p), ("port", c_uint16),
                ("memory_bytes_max", c_uint64), ("log", _LOG), ("log_user", c_void_p),
                ("listening_socket", c_int), ("admit", _ADMIT), ("admit_user", c_void_p),
                ("clients_max", c_uint64), ("address_clients_max", c_uint64),
                ("address_keys_max", c_uint64), ("address_bytes_max", c_uint64),
                ("namespaces", POINTER(_Namespace)), ("namespace_count", c_size_t),
                ("secret", c_char_p)]


class _ClientOptions(Structure):
    _fields_ = [("size", c_size_t), ("host", c_char_p), ("port", c_uint16),
                ("connect_timeout_ms", c_int64), ("timeout_ms", c_int64), ("key_prefix", c_char_p),
                ("server", c_void_p), ("service", c_void_p), ("secret", c_char_p)]


class _Reply(Structure):
    _fields_ = [("size", c_size_t), ("request", c_uint64), ("code", c_int), ("error", c_char_p),
                ("value", c_void_p), ("value_size", c_size_t), ("number", c_int64)]


_DONE = CFUNCTYPE(None, c_void_p, POINTER(_Reply))

_library: ctypes.CDLL | None = None


def _find_library() -> str:
    named = os.environ.get("CPPRUN_STORE_LIBRARY")
    if named:
        return named
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libcpprun_store.so.1")
    return own if os.path.exists(own) else "libcpprun_store.so.1"


def _load() -> ctypes.CDLL:
    global _library
    if _library is not None:
        return _library
    path = _find_library()
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load {path}: {error}; name libcpprun_store.so in "
                          "CPPRUN_STORE_LIBRARY") from error
    text, handle, value = c_char_p, c_void_p, c_void_p
    out_value, out_size = POINTER(c_void_p), POINTER(c_size_t)
    keys, done = POINTER(c_char_p), [c_int64, _DONE, c_void_p]
    # Results of functions; int is the default.
    results = {"error": text, "serve_with": handle, "port": c_uint16, "address": text,
               "stop": None, "connect_with": handle, "disconnect": None, "interrupt": None,
               "free": None, "list_count": c_size_t, "list_item": c_void_p, "list_free": None,
               "async_open": handle, "async_dispatch": None, "async_close": None,
               "async_in_progress": c_size_t, "async_set": c_uint64, "async_get": c_uint64,
               "async_find": c_uint64, "async_add": c_uint64, "async_compare_set": c_uint64,
               "async_delete_key": c_uint64, "async_wait": c_uint64, "async_barrier": c_uint64,
               "async_watch": c_uint64}
    arguments: dict[str, list[Any]] = {
        "error": [], "error_code": [], "abi": [], "serve_with": [POINTER(_ServerOptions)],
        "port": [handle], "address": [handle], "drain": [handle, c_int64], "stop": [handle],
        "connect_with": [POINTER(_ClientOptions)], "disconnect": [handle], "is_broken": [handle],
        "interrupt": [handle], "free": [value],
        "set": [handle, text, text, c_size_t], "append": [handle, text, text, c_size_t],
        "queue_push": [handle, text, text, c_size_t],
        "get": [handle, text, c_int64, out_value, out_size],
        "find": [handle, text, out_value, out_size],
        "queue_pop": [handle, text, out_value, out_size],
        "queue_length": [handle, text, POINTER(c_int64)],
        "add": [handle, text, c_int64, POINTER(c_int64)],
        "compare_set": [handle, text, text, c_size_t, text, c_size_t, out_value, out_size],
        "check": [handle, keys, c_size_t, POINTER(c_int)],
        "wait": [handle, keys, c_size_t, c_int64], "barrier": [handle, text, c_int64, c_int64],
        "delete_key": [handle, text, POINTER(c_int)], "num_keys": [handle, POINTER(c_int64)],
        "list_keys": [handle, out_value], "list_count": [handle],
        "list_item": [handle, c_size_t, out_size], "list_free": [handle],
        "each": [handle, text, _VISIT, c_void_p],
        "watch": [handle, text, _WATCHER, c_void_p],
        "async_open": [POINTER(_ClientOptions)], "async_descriptor": [handle],
        "async_dispatch": [handle], "async_in_progress": [handle], "async_is_broken": [handle],
        "async_close": [handle], "async_cancel": [handle, c_uint64],
        "async_set": [handle, text, text, c_size_t, *done], "async_get": [handle, text, *done],
        "async_find": [handle, text, *done], "async_add": [handle, text, c_int64, *done],
        "async_compare_set": [handle, text, text, c_size_t, text, c_size_t, *done],
        "async_delete_key": [handle, text, *done],
        "async_wait": [handle, keys, c_size_t, *done],
        "async_barrier": [handle, text, c_int64, *done],
        "async_watch": [handle, text, _WATCHER, _DONE, c_void_p]}
    for name, types in arguments.items():
        function = getattr(lib, f"cpprun_store_{name}")
        function.argtypes = types
        if name in results:
            function.restype = results[name]
    if lib.cpprun_store_abi() != 1:
        raise ImportError(f"{path} has another binary interface: {lib.cpprun_store_abi()}, not 1")
    _library = lib
    return lib


def _call(name: str, *arguments: Any) -> Any:
    """Raises the library's error if the function returns -1, NULL or 0 for a handle."""
    lib = _load()
    result = getattr(lib, f"cpprun_store_{name}")(*arguments)
    if result is None or result == -1 or (result == 0 and name.startswith("async_")):
        raise _error((lib.cpprun_store_error() or b"").decode(errors="replace"),
                     lib.cpprun_store_error_code())
    return result


def _key(key: str) -> bytes:
    if "\0" in key:
        raise BadArgument("a key of the store must not contain a NUL byte", 5)
    return key.encode()


def _keys(keys: Sequence[str]) -> Any:
    if isinstance(keys, str):
        raise BadArgument("keys has to be a list of keys, and not one string", 5)
    return (c_char_p * len(keys))(*map(_key, keys))


def _value(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _milliseconds(seconds: float | None) -> int:
    return -1 if seconds is None else max(0, round(seconds * 1000))


class _Out:
    """Where a function puts a value."""

    def __init__(self) -> None:
        self.pointer, self.size = c_void_p(), c_size_t()
        self.arguments = byref(self.pointer), byref(self.size)

    def take(self) -> bytes | None:
        if self.pointer.value is None:
            return None
        try:
            return ctypes.string_at(self.pointer, self.size.value)
        finally:
            _load().cpprun_store_free(self.pointer)


class Namespace:
    """Rules for the keys with a prefix, as the store has them: "/alive/" for "alive/0"."""

    def __init__(self, prefix: str, *, keys_max: int = 0, bytes_max: int = 0,
                 ends_with_client: bool = False, lease: float = 0) -> None:
        self.prefix, self.keys_max, self.bytes_max = prefix, keys_max, bytes_max
        self.ends_with_client, self.lease = ends_with_client, lease


class Server:
    """Serves in a thread of its own, until close(). `host`: an address, "*" or "unix:PATH".

    `log` is called with each line about a connection that the server closes; `admit` with the
    address of each client, which is rejected if it returns False. Both are called by that thread.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, memory_bytes_max: int = 0,
                 clients_max: int = 0, log: Callable[[str], object] | None = None,
                 admit: Callable[[str], bool] | None = None,
                 namespaces: Sequence[Namespace] = (), secret: str | None = None) -> None:
        self._handle: int | None = None
        options = _ServerOptions(size=ctypes.sizeof(_ServerOptions), host=host.encode(), port=port,
                                 memory_bytes_max=memory_bytes_max, clients_max=clients_max)
        # ctypes prints what a callback raises, and then returns 0: such a client is rejected.
        self._callbacks: list[Any] = []
        if log is not None:
            options.log = _LOG(lambda _, line: log(line.decode(errors="replace")))
            self._callbacks.append(options.log)
        if admit is not None:
            options.admit = _ADMIT(lambda _, client: bool(admit(client.decode())))
            self._callbacks.append(options.admit)
        if namespaces:
            size = ctypes.sizeof(_Namespace)
            options.namespaces = (_Namespace * len(namespaces))(*(
                _Namespace(size, _key(each.prefix), each.keys_max, each.bytes_max,
                           each.ends_with_client, _milliseconds(each.lease))
                for each in namespaces))
            options.namespace_count = len(namespaces)
        if secret is not None:
            options.secret = secret.encode()
        self._handle = _call("serve_with", byref(options))

    @property
    def port(self) -> int:
        return int(_load().cpprun_store_port(self._open()))

    @property
    def address(self) -> str:
        return str(_load().cpprun_store_address(self._open()).decode())

    def drain(self, timeout: float | None = None) -> None:
        """Refuses new clients, and returns when all others have disconnected."""
        _call("drain", self._open(), _milliseconds(timeout))

    def close(self) -> None:
        """Ends all connections."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _load().cpprun_store_stop(handle)

    def _open(self) -> int:
        if self._handle is None:
            raise Closed("the server was closed", 3)
        return self._handle

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _client_options(host: str, port: int, connect_timeout: float | None, timeout: float | None,
                    key_prefix: str, server: Server | None, secret: str | None) -> _ClientOptions:
    return _ClientOptions(
        size=ctypes.sizeof(_ClientOptions), host=host.encode(), port=port,
        connect_timeout_ms=_milliseconds(connect_timeout), timeout_ms=_milliseconds(timeout),
        key_prefix=_key(key_prefix), server=None if server is None else server._open(),
        secret=None if secret is None else secret.encode())


class Client:
    """A blocking client; threads may share it. `server`: one in this process, without a socket."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *,
                 connect_timeout: float | None = None, timeout: float | None = None,
                 key_prefix: str = "/", server: Server | None = None,
                 secret: str | None = None) -> None:
        self._handle: int | None = None
        self._server = server  # lives as long as this
        self._callbacks: list[Any] = []
        options = _client_options(host, port, connect_timeout, timeout, key_prefix, server, secret)
        self._handle = _call("connect_with", byref(options))

    def set(self, key: str, value: bytes | str) -> None:
        data = _value(value)
        _call("set", self._open(), _key(key), data, len(data))

    def append(self, key: str, value: bytes | str) -> None:
        data = _value(value)
        _call("append", self._open(), _key(key), data, len(data))

    def get(self, key: str, timeout: float | None = None) -> bytes:
        """Waits until the key exists."""
        out = _Out()
        _call("get", self._open(), _key(key), _milliseconds(timeout), *out.arguments)
        return out.take() or b""

    def find(self, key: str) -> bytes | None:
        """The current value, or None."""
        out = _Out()
        _call("find", self._open(), _key(key), *out.arguments)
        return out.take()

    def add(self, key: str, delta: int) -> int:
        total = c_int64()
        _call("add", self._open(), _key(key), delta, byref(total))
        return total.value

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes:
        """Returns the value afterwards, or `expected` if the key does not exist."""
        old, new, out = _value(expected), _value(desired), _Out()
        _call("compare_set", self._open(), _key(key), old, len(old), new, len(new), *out.arguments)
        return out.take() or b""

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all of the keys exist."""
        exist = c_int()
        _call("check", self._open(), _keys(keys), len(keys), byref(exist))
        return exist.value != 0

    def wait(self, keys: Sequence[str], timeout: float | None = None) -> None:
        _call("wait", self._open(), _keys(keys), len(keys), _milliseconds(timeout))

    def barrier(self, key: str, world_size: int, timeout: float | None = None) -> None:
        _call("barrier", self._open(), _key(key), world_size, _milliseconds(timeout))

    def delete_key(self, key: str) -> bool:
        existed = c_int()
        _call("delete_key", self._open(), _key(key), byref(existed))
        return existed.value != 0

    def num_keys(self) -> int:
        count = c_int64()
        _call("num_keys", self._open(), byref(count))
        return count.value

    def list_keys(self) -> list[str]:
        lib, found = _load(), c_void_p()
        _call("list_keys", self._open(), byref(found))
        try:
            size, keys = c_size_t(), []
            for at in range(lib.cpprun_store_list_count(found)):
                item = lib.cpprun_store_list_item(found, at, byref(size))
                keys.append(ctypes.string_at(item, size.value).decode(errors="surrogateescape"))
            return keys
        finally:
            lib.cpprun_store_list_free(found)

    def queue_push(self, key: str, value: bytes | str) -> None:
        data = _value(value)
        _call("queue_push", self._open(), _key(key), data, len(data))

    def queue_pop(self, key: str) -> bytes | None:
        """The oldest entry, or None."""
        out = _Out()
        _call("queue_pop", self._open(), _key(key), *out.arguments)
        return out.take()

    def queue_length(self, key: str) -> int:
        length = c_int64()
        _call("queue_length", self._open(), _key(key), byref(length))
        return length.value

    def watch(self, prefix: str, watcher: Callable[[int, str, bytes], object]) -> None:
        """Calls `watcher(change, key, value)` in the server's thread, until close().

        Needs `server`. change: 0 updated, 1 created, 2 deleted, 3 some changes were lost.
        """
        call = _WATCHER(_watcher(watcher))
        _call("watch", self._open(), _key(prefix), call, None)
        self._callbacks.append(call)

    def each(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """All keys with that prefix, and their values. Needs `server`."""
        found: list[tuple[str, bytes]] = []
        visit = _VISIT(lambda _, key, key_size, value, size: found.append(
            (ctypes.string_at(key, key_size).decode(errors="surrogateescape"),
             ctypes.string_at(value, size))))
        _call("each", self._open(), _key(prefix), visit, None)
        return iter(found)

    @property
    def broken(self) -> bool:
        """Whether every further call fails."""
        return self._handle is None or _load().cpprun_store_is_broken(self._handle) != 0

    def interrupt(self) -> None:
        """Calls of other threads, and all later ones, fail with Interrupted."""
        _load().cpprun_store_interrupt(self._open())

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            _load().cpprun_store_disconnect(handle)

    def _open(self) -> int:
        if self._handle is None:
            raise Closed("the client was closed", 3)
        return self._handle

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _watcher(watcher: Callable[[int, str, bytes], object]) -> Callable[..., None]:
    def call(_: Any, change: int, key: Any, key_size: int, value: Any, size: int) -> None:
        watcher(change, ctypes.string_at(key, key_size).decode(errors="surrogateescape"),
                ctypes.string_at(value, size))
    return call


class AsyncClient:
    """A client for asyncio. It connects while it is used; any number of requests may be awaited.

    A task that is cancelled cancels its request. Use it in one event loop, and close it there.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *,
                 connect_timeout: float | None = None, timeout: float | None = None,
                 key_prefix: str = "/", server: Server | None = None,
                 secret: str | None = None) -> None:
        self._handle: int | None = None
        self._server = server
        self._futures: dict[int, tuple[asyncio.Future[Any], Callable[[Any], Any]]] = {}
        self._watches: dict[int, Any] = {}
        self._done = _DONE(self._finish)
        options = _client_options(host, port, connect_timeout, timeout, key_prefix, server, secret)
        self._handle = _call("async_open", byref(options))
        self._descriptor = _load().cpprun_store_async_descriptor(self._handle)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def set(self, key: str, value: bytes | str, timeout: float | None = None) -> None:
        """Done when it was sent, as a store does not reply to it."""
        data = _value(value)
        await self._ask("set", timeout, lambda _: None, _key(key), data, len(data))

    async def get(self, key: str, timeout: float | None = None) -> bytes:
        """Waits until the key exists."""
        return bytes(await self._ask("get", timeout, _bytes_of, _key(key)))

    async def find(self, key: str, timeout: float | None = None) -> bytes | None:
        """The current value, or None."""
        found: bytes | None = await self._ask("find", timeout, _bytes_of, _key(key))
        return found

    async def add(self, key: str, delta: int, timeout: float | None = None) -> int:
        return int(await self._ask("add", timeout, _number_of, _key(key), delta))

    async def compare_set(self, key: str, expected: bytes | str, desired: bytes | str,
                          timeout: float | None = None) -> bytes:
        old, new = _value(expected), _value(desired)
        return bytes(await self._ask("compare_set", timeout, _bytes_of, _key(key), old, len(old),
                                     new, len(new)))

    async def delete_key(self, key: str, timeout: float | None = None) -> bool:
        return bool(await self._ask("delete_key", timeout, _number_of, _key(key)))

    async def wait(self, keys: Sequence[str], timeout: float | None = None) -> None:
        await self._ask("wait", timeout, lambda _: None, _keys(keys), len(keys))

    async def barrier(self, key: str, world_size: int, timeout: float | None = None) -> None:
        await self._ask("barrier", timeout, lambda _: None, _key(key), world_size)

    async def watch(self, prefix: str, watcher: Callable[[int, str, bytes], object]) -> None:
        """As Client.watch(), but in this loop; until this task is cancelled or the store ends."""
        call = _WATCHER(_watcher(watcher))
        self._begin()
        number = _call("async_watch", self._open(), _key(prefix), call, self._done, None)
        self._watches[number] = call
        await self._await(number, lambda _: None)

    @property
    def broken(self) -> bool:
        """Whether every further request fails."""
        return self._handle is None or _load().cpprun_store_async_is_broken(self._handle) != 0

    def close(self) -> None:
        """Requests in progress fail with Interrupted."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)
        _load().cpprun_store_async_close(handle)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _open(self) -> int:
        if self._handle is None:
            raise Closed("the client was closed", 3)
        return self._handle

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._descriptor, self._dispatch)
        elif self._loop is not loop:
            raise BadArgument("this client belongs to another event loop", 5)

    async def _ask(self, name: str, timeout: float | None, convert: Callable[[Any], Any],
                   *arguments: Any) -> Any:
        self._begin()
        number = _call(f"async_{name}", self._open(), *arguments, _milliseconds(timeout),
                       self._done, None)
        return await self._await(number, convert)

    async def _await(self, number: int, convert: Callable[[Any], Any]) -> Any:
        assert self._loop is not None
        future = self._loop.create_future()
        self._futures[number] = future, convert
        try:
            return await future
        except asyncio.CancelledError:
            if self._handle is not None:
                _load().cpprun_store_async_cancel(self._handle, number)
            raise

    def _dispatch(self) -> None:
        if self._handle is not None:
            _load().cpprun_store_async_dispatch(self._handle)

    # Called by dispatch and close, once for each request.
    def _finish(self, _: Any, pointer: Any) -> None:
        reply = pointer.contents
        self._watches.pop(reply.request, None)
        future, convert = self._futures.pop(reply.request)
        if future.done() or future.get_loop().is_closed():  # its task was cancelled, or is gone
            return
        if reply.code != 0:
            future.set_exception(_error(reply.error.decode(errors="replace"), reply.code))
        else:
            future.set_result(convert(reply))


def _bytes_of(reply: _Reply) -> bytes | None:
    return None if reply.value is None else ctypes.string_at(reply.value, reply.value_size)


def _number_of(reply: _Reply) -> int:
    return int(reply.number)

# SPDX-License-Identifier: Apache-2.0
"""A TCP relay, for clients that cannot choose the address from which they connect: those of gRPC."""

import contextlib
import selectors
import socket
import threading

import harness

PIECE_BYTES = 1 << 16


class Relay:
    """Relays connections to `target` ("HOST:PORT"), from the addresses `sources` in turns. Use as a context manager."""

    def __init__(self, target, *sources):
        host, _, port = target.rpartition(":")
        self.target, self.sources, self.accepted = (host, int(port)), sources, 0
        self.listener = socket.create_server((harness.HOST, 0))
        self.address = f"{harness.HOST}:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            source = self.sources[self.accepted % len(self.sources)]
            self.accepted += 1
            threading.Thread(target=self._serve, args=(client, source), daemon=True).start()

    def _serve(self, client, source):
        with client, contextlib.suppress(OSError), \
                socket.create_connection(self.target, source_address=(source, 0)) as server, \
                selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    data = key.fileobj.recv(PIECE_BYTES)
                    if not data:
                        return
                    key.data.sendall(data)

# SPDX-License-Identifier: Apache-2.0
"""The connections between members that have no network of their own: a TCP proxy for each pair of members.
A proxy can hold data and delay it, but cannot lose, duplicate or reorder packets. Connections of clients do not
go through proxies."""

import asyncio
import itertools
import random
import threading

import harness

PIECE_BYTES = 1 << 16
RULES = ("drop", "delay", "jitter")


class _Link:
    """The link from one member to another. Data that is sent while the link is cut is held, as by TCP."""

    def __init__(self, chance):
        self.chance = chance
        self.port = 0  # the port to which the sender connects
        self.receiver_port = 0
        self.passes = asyncio.Event()
        self.passes.set()
        self.delay_ms = self.jitter_ms = 0
        self.delivered = 0  # the number of pieces of data that have passed
        self.holds = False

    def set(self, rule):
        words = dict(word.partition("=")[::2] for word in rule.split())
        if not set(words) <= set(RULES):
            raise ValueError(f"{rule}: a proxy does not do that; it knows {', '.join(RULES)}")
        self.delay_ms, self.jitter_ms = (int(words.get(name, 0)) for name in ("delay", "jitter"))
        if "drop" in words:
            self.passes.clear()
        else:
            self.passes.set()
            self.holds = False

    async def admit(self):
        """Waits until the rules let the next piece of data pass."""
        pause_ms = self.delay_ms + self.chance.uniform(0, self.jitter_ms)
        if pause_ms:
            await asyncio.sleep(pause_ms / 1000)
        while not self.passes.is_set():
            self.holds = True
            await self.passes.wait()

    async def pump(self, reader, writer):
        try:
            while data := await reader.read(PIECE_BYTES):
                await self.admit()
                self.delivered += 1
                writer.write(data)
                await writer.drain()
            await self.admit()
        except OSError:
            pass  # one of the ends is closed; the other end is closed then, too
        finally:
            writer.close()


class Links:
    """Links between named members: member1, member2, ... Has the methods of Network that nemeses use; each returns
    when its change is in force. Thread-safety: methods from one thread."""

    def __init__(self, members, seed):
        self.members = [f"member{i}" for i in range(1, members + 1)]
        self.workers = []
        chance = random.Random(seed)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.links, self.servers, self.tasks = {}, [], set()
        self._call(self._begin(chance))

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def _begin(self, chance):
        for pair in itertools.permutations(self.members, 2):
            link = self.links[pair] = _Link(chance)

            async def serve(reader, writer, pair=pair):
                self.tasks.add(asyncio.current_task())
                asyncio.current_task().add_done_callback(self.tasks.discard)
                await self._serve(pair, reader, writer)

            server = await asyncio.start_server(serve, harness.HOST, 0)
            link.port = server.sockets[0].getsockname()[1]
            self.servers.append(server)

    async def _serve(self, pair, reader, writer):
        link, back = self.links[pair], self.links[pair[::-1]]
        await link.admit()
        try:
            onward = await asyncio.open_connection(harness.HOST, link.receiver_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(link.pump(reader, onward[1]), back.pump(onward[0], writer))

    def lead_to(self, ports):
        """Sets the ports on which the members listen, in the order of the members."""
        for (_, receiver), link in self.links.items():
            link.receiver_port = ports[self.members.index(receiver)]

    def port(self, sender, receiver):
        """Returns the port to which `sender` connects in order to reach `receiver`."""
        return self.links[sender, receiver].port

    def set(self, senders, receivers, rule):
        """Applies `rule` to data from each sender to each receiver ("drop", "delay=50 jitter=20"; "": data
        passes)."""
        async def do():
            for pair in itertools.product(senders, receivers):
                if pair in self.links:
                    self.links[pair].set(rule)
        self._call(do())

    def cut(self, one, other):
        """Holds all data between the two groups of members, in both directions."""
        self.set(one, other, "drop")
        self.set(other, one, "drop")

    def heal(self):
        self.set(self.members, self.members, "")

    def delivered(self, sender, receiver):
        """Returns how many pieces of data have passed from `sender` to `receiver`."""
        return self.links[sender, receiver].delivered

    def holds(self, sender, receiver):
        """Returns whether data from `sender` to `receiver` waits for the end of a cut."""
        return self.links[sender, receiver].holds

    def end(self):
        async def stop():
            for server in self.servers:
                server.close()
            for task in list(self.tasks):
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
        self._call(stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

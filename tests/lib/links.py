"""The connections between members, where these cannot have a network of their own: a proxy of TCP for each
pair of them. It can hold what comes, and delay it; there are no packets that it could lose, send twice or
send in another order. Clients are not concerned."""

import asyncio
import itertools
import random
import threading

import harness

PIECE_BYTES = 1 << 16
RULES = ("drop", "delay", "jitter")


class _Link:
    """From one member to another. What is sent while it is cut is held, as by TCP."""

    def __init__(self, chance):
        self.chance = chance
        self.port = 0  # where the sender finds the receiver
        self.receiver_port = 0
        self.passes = asyncio.Event()
        self.passes.set()
        self.delay_ms = self.jitter_ms = 0
        self.delivered = 0  # pieces
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
        """Waits as long as the rules say."""
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
            pass  # one of the ends is gone, which the other one is told
        finally:
            writer.close()


class Links:
    """Members by name: member1, member2, ... The methods of Network that nemeses use; each returns when
    what it does is in force. Thread-safety: methods from one thread."""

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
        """Where the members listen: their ports, in their order."""
        for (_, receiver), link in self.links.items():
            link.receiver_port = ports[self.members.index(receiver)]

    def port(self, sender, receiver):
        """Where the sender finds the receiver."""
        return self.links[sender, receiver].port

    def set(self, senders, receivers, rule):
        """What each of the ones sends to each of the others is treated by `rule` ("drop", "delay=50
        jitter=20", "": it passes)."""
        async def do():
            for pair in itertools.product(senders, receivers):
                if pair in self.links:
                    self.links[pair].set(rule)
        self._call(do())

    def cut(self, one, other):
        """Nothing passes between the ones and the others, in both directions."""
        self.set(one, other, "drop")
        self.set(other, one, "drop")

    def heal(self):
        self.set(self.members, self.members, "")

    def delivered(self, sender, receiver):
        """Pieces that have passed."""
        return self.links[sender, receiver].delivered

    def holds(self, sender, receiver):
        """Whether something waits for the end of a cut."""
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

# SPDX-License-Identifier: Apache-2.0
"""Tests each rule of the switch with datagrams between two nodes."""

import contextlib
import functools
import socket
import threading
import time

import sandbox
from network import Network

PACKETS = 400
PORT = 9
SECONDS = 10
# If nothing arrives for this long, no more datagrams are expected. On a busy machine the switch may not run for a
# while. If the expected number is known, a shorter time suffices to notice surplus datagrams.
GAP_SECONDS, MORE_SECONDS = 3, 0.4


def socket_on(network, node):
    """Returns a datagram socket on that node."""
    made = []

    def make():  # a socket stays in the namespace in which it was made
        sandbox.enter_network(network.spaces[node])
        made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        made[0].bind((network.addresses[node], PORT))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


class Line:
    """Sends datagrams from the first node to the second, and back."""

    def __init__(self, network):
        self.network = network
        self.sender, self.receiver = socket_on(network, "member1"), socket_on(network, "member2")

    def send(self, expected=None, back=False):
        """Sends numbers in order, and returns those that arrive as (number, ms under way). `expected`: how many will
        arrive, if that is known."""
        sender, receiver, to = ((self.receiver, self.sender, "member1") if back else
                                (self.sender, self.receiver, "member2"))
        receiver.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while receiver.recv(100):
                pass
        for i in range(PACKETS):
            sender.sendto(f"{i} {time.monotonic()}".encode(), (self.network.addresses[to], PORT))
            if i % 20 == 19:
                time.sleep(0.002)
        arrived, deadline = [], time.monotonic() + SECONDS
        while len(arrived) < 3 * PACKETS:
            gap = MORE_SECONDS if expected is not None and len(arrived) >= expected else GAP_SECONDS
            receiver.settimeout(max(0.001, min(gap, deadline - time.monotonic())))
            try:
                number, sent = receiver.recv(100).split()
            except socket.timeout:
                break
            arrived.append((int(number), (time.monotonic() - float(sent)) * 1000))
        return arrived


def _with_line(rule, both=False):
    def wrapped(function):
        @functools.wraps(function)
        def run():
            network = Network(2, 1, seed=1)
            try:
                line = Line(network)
                network.set(["member1"], ["member2"], rule)
                if both:
                    network.set(["member2"], ["member1"], rule)
                return function(line)
            finally:
                network.end()
        return run
    return wrapped


def _numbers(arrived):
    return [number for number, _ in arrived]


@_with_line("")
def passes(line):
    assert _numbers(line.send(PACKETS)) == list(range(PACKETS)), "packets are lost or out of order"
    assert line.network.delivered("member1", "member2") == PACKETS


@_with_line("drop")
def drop_is_one_way(line):
    assert not line.send(), "dropped packets arrive"
    assert len(line.send(PACKETS, back=True)) == PACKETS, "the other direction is cut too"
    line.network.heal()
    assert len(line.send(PACKETS)) == PACKETS, "the fault is not healed"


@_with_line("loss=0.3")
def loss_is_a_share(line):
    arrived = len(line.send())
    assert 0.55 * PACKETS < arrived < 0.85 * PACKETS, f"{arrived} of {PACKETS}"
    return f"{arrived} of {PACKETS} arrive"


@_with_line("delay=80 jitter=40")
def delay_keeps_the_order(line):
    arrived = line.send(PACKETS)
    assert _numbers(arrived) == list(range(PACKETS)), "packets are lost or out of order"
    times = [ms for _, ms in arrived]
    assert min(times) >= 80 and max(times) - min(times) > 15, f"{min(times):.0f} to {max(times):.0f} ms"
    return f"{min(times):.0f} to {max(times):.0f} ms"


@_with_line("duplicate=0.5")
def duplicates_come_twice(line):
    numbers = _numbers(line.send())
    assert set(numbers) == set(range(PACKETS)), "packets are lost"
    assert 1.3 * PACKETS < len(numbers) < 1.7 * PACKETS, f"{len(numbers)} of {PACKETS}"
    return f"{len(numbers)} of {PACKETS}"


@_with_line("reorder=0.3")
def reorder_changes_the_order_and_loses_nothing(line):
    numbers = _numbers(line.send(PACKETS))
    assert sorted(numbers) == list(range(PACKETS)), "packets are lost or duplicated"
    overtaken = sum(a > b for a, b in zip(numbers, numbers[1:]))
    assert overtaken > PACKETS / 40, f"{overtaken} were overtaken"
    return f"{overtaken} of {PACKETS} are overtaken"


@_with_line("rate=100")
def rate_limits_the_bytes_of_a_second(line):
    size, count, rate, queued = 1000, 400, 100_000, 0.1
    began = time.monotonic()
    for i in range(count):
        line.sender.sendto(str(i).encode().ljust(size), (line.network.addresses["member2"], PORT))
    sent_within = time.monotonic() - began
    numbers, deadline = [], time.monotonic() + SECONDS
    line.receiver.settimeout(GAP_SECONDS)
    while time.monotonic() < deadline:
        try:
            numbers.append(int(line.receiver.recv(2 * size)))
        except socket.timeout:
            break
        # No more packets can have passed, however late this process measures the time.
        seconds = time.monotonic() - began
        assert len(numbers) * size <= (seconds + queued) * rate, f"{len(numbers)} packets in {seconds:.3f} s"
    assert numbers == sorted(set(numbers)), "packets are out of order or duplicated"
    assert numbers, "nothing arrives"
    if sent_within < count * size / rate / 2:
        assert len(numbers) < count, "no packet is lost although the buffer is full"
    line.network.heal()
    assert _numbers(line.send(PACKETS)) == list(range(PACKETS)), "the fault is not healed"
    return f"{len(numbers)} of {count} arrive"


TESTS = (passes, drop_is_one_way, loss_is_a_share, delay_keeps_the_order, duplicates_come_twice,
         reorder_changes_the_order_and_loses_nothing, rate_limits_the_bytes_of_a_second)

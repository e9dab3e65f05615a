# SPDX-License-Identifier: Apache-2.0
"""Tests the last record of the log of a server that was killed. A torn record, as a power failure leaves it, is
cut off with a warning, and comes again from the other members. A damaged record is refused with an error that
names its place and says what to do."""

import json
import os
import re

import harness
import kills
import seed
import tool_steps
import zkwire as zk

SIZE = 3
SECONDS = 30
HEADER_BYTES = 32
ALIGNMENT = 8
SECTOR_BYTES = 512
DATA_BYTES = 3 * SECTOR_BYTES  # so that the record does not end in the sector in which it begins
TURNED_BITS = 4
ATTEMPTS = 3


class LastRecord:
    """The last record in the log of a killed member: a write that all members have acknowledged."""

    def __init__(self, scene, member):
        self.scene, self.member = scene, member
        self.directory = scene.cluster.member_dir(member)
        self.data = bytes(seed.chance("data").choices(range(1, 256), k=DATA_BYTES))
        for attempt in range(ATTEMPTS):
            self.node = f"/last-{attempt}"
            last = self._write_and_kill()
            operations = last.get("operations", [{}])
            if (operations[0].get("operation"), operations[0].get("path")) == ("setData", self.node):
                break
            # An election meanwhile has put an entry behind the write.
            scene.start(member)
            scene.check_all()
        else:
            raise AssertionError(f"not the last record of its log, but: {last}")
        self.path, self.index, self.offset = self._newest(), last["index"], last["offset"]
        # One to ALIGNMENT bytes mark the end of the record.
        self.end = (self.offset + HEADER_BYTES + last["bytes"]) // ALIGNMENT * ALIGNMENT + ALIGNMENT

    def _write_and_kill(self):
        """Writes, and kills the member. Returns the last entry of its log."""
        with zk.Connection(self.scene.cluster.address(self.member)) as connection:
            connection.create(self.node)
            connection.set(self.node, self.data)
            # The other members may commit the write before it is in this log.
            self.scene.cluster.wait_until("in the log", self._is_written)
            self.scene.servers.kill(self.member)
        return json.loads(tool_steps.run_tool("log", "dump", "--json", self.directory))["items"][-1]

    def _newest(self):
        log = os.path.join(self.directory, "log")
        names = [name for name in os.listdir(log) if name.endswith(".log")]
        return os.path.join(log, max(names, key=lambda name: int(name.split(".")[1])))

    def _is_written(self):
        with open(self._newest(), "rb") as file:
            return self.data in file.read()

    def tear(self):
        """Sets the first sector of the record back to what it was before the write."""
        with open(self.path, "r+b") as file:
            file.seek(self.offset)
            file.write(bytes(SECTOR_BYTES - self.offset % SECTOR_BYTES))

    def turn(self, bit):
        with open(self.path, "r+b") as file:
            file.seek(self.offset + bit // 8)
            byte = file.read(1)[0]
            file.seek(self.offset + bit // 8)
            file.write(bytes([byte ^ 1 << bit % 8]))

    def start(self):
        """Starts the member. Returns the length of its log of messages before that."""
        said = len(self.scene.cluster.log(self.member))
        self.scene.start(self.member)
        return said

    def check_back(self):
        """Checks that the member serves and has everything that the others have."""
        self.scene.check_all()
        with zk.Connection(self.scene.cluster.address(self.member)) as connection:
            assert connection.get(self.node)[0] == self.data
            connection.close()


def _with_last_record(server, test):
    if server != "quorate":
        raise harness.Skipped("about our own files")
    with harness.Cluster(server, size=SIZE) as cluster:
        scene = kills.UnderLoad(cluster, [])
        try:
            scene.begin()
            scene.check_all()  # waits until all members serve
            return test(LastRecord(scene, seed.chance("member").choice(cluster.numbers())))
        finally:
            scene.end()


def alone_a_torn_record_is_cut_off(server):
    return _with_last_record(server, _tear)


def _tear(record):
    record.tear()
    said = record.start()
    record.check_back()
    log = record.scene.cluster.log(record.member)[said:]
    cut = re.search(re.escape(record.path) + r": (\d+) bytes at offset (\d+) were no whole record.* entry "
                    r"(\d+)\.", log)
    assert cut, f"the server does not log that it has cut its log:\n{harness.end_of(log)}"
    size, offset, index = map(int, cut.groups())
    assert (offset, index) == (record.offset, record.index), cut.group()
    assert SECTOR_BYTES < size <= record.end - record.offset, cut.group()
    return f"{size} bytes of entry {index}"


def alone_a_damaged_record_is_refused(server):
    return _with_last_record(server, _damage)


def _damage(record):
    bits = seed.chance("bits").sample(range(8 * (record.end - record.offset)), TURNED_BITS)
    for bit in bits:
        record.turn(bit)
        said = record.start()
        process = record.scene.servers.processes.pop(record.member)
        try:
            assert harness.wait_for_exit(process, SECONDS), f"the server starts although bit {bit} is flipped"
        finally:
            process.kill()
            process.wait()
        log = record.scene.cluster.log(record.member)[said:]
        assert process.returncode == 3, log
        for word in (record.path, f"offset {record.offset} ", "`quorate rebuild`"):
            assert word in log, f"the error lacks {word}:\n{log}"
        record.turn(bit)
    record.turn(bits[0])
    tool_steps.run_tool("rebuild", record.directory, "--yes")
    record.start()
    record.check_back()
    return f"bits {', '.join(map(str, bits))} of entry {record.index}"

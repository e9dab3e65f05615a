# SPDX-License-Identifier: Apache-2.0
"""Tests of KeeperMap, a table engine of ClickHouse whose rows are znodes."""

import contextlib
import json
import os
import random
import select
import subprocess
import sys
import tempfile
import time

import harness

HERE = os.path.dirname(os.path.realpath(__file__))
CONFIG = """<clickhouse>
  <path>{directory}/data/</path>
  <zookeeper>{nodes}<session_timeout_ms>15000</session_timeout_ms></zookeeper>
  <keeper_map_path_prefix>/keeper_map_tables</keeper_map_path_prefix>
  <default_replica_path>/clickhouse/tables/{{database}}/{{table}}</default_replica_path>
  <default_replica_name>{{replica}}</default_replica_name>
  <macros><replica>r1</replica></macros>
</clickhouse>
"""
TABLE = "(key UInt64, value String) ENGINE = KeeperMap('/{name}') PRIMARY KEY key"
KILLING_SECONDS = 20
PATIENCE_SECONDS = 60
KEYS = 200  # few, so that operations meet the same rows
TOO_LONG_ROWS = 100_000  # a multi of about 10 MB

settings_without_extensions = "keeperExtensions=false"
library_path = None  # set by the program: where libchdb.so is


class Refused(Exception):
    """ClickHouse refused a query."""


class ClickHouse:
    """ClickHouse in a process of its own. Use as a context manager."""

    def __init__(self, cluster, directory=None, engine="Memory"):
        """`directory`: that of an earlier process, whose tables are there again. `engine`: of the database d. Memory drops a
        table within the query."""
        self.directory = directory or tempfile.mkdtemp(prefix="clickhouse-", dir=cluster.parent)
        nodes = "".join(f"<node><host>{harness.HOST}</host><port>{cluster.ports.base + i}</port></node>"
                        for i in cluster.numbers())
        config = os.path.join(self.directory, "config.xml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(directory=self.directory, nodes=nodes))
        self.errors = open(os.path.join(self.directory, "errors"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.join(HERE, "worker.py"), library_path, config],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=self.directory)
        self.query = "SELECT version()"
        self.version = self._answer().strip()
        self.ask(f"CREATE DATABASE IF NOT EXISTS d ENGINE = {engine}")

    def _answer(self):
        # Only one answer is ever under way, so nothing of it is in the buffer of the file.
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        assert readable, f"no answer within {PATIENCE_SECONDS} s to: {self.query}"
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise AssertionError(f"ClickHouse ended\n{harness.end_of(self.errors.read())}")
        kind, text = json.loads(line)
        if kind != "ok":
            raise Refused(text[:500])
        return text

    def ask(self, query):
        """Returns the answer. Raises Refused if ClickHouse refuses the query."""
        self.query = query
        self.process.stdin.write(json.dumps(query) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def rows(self, table, where="1"):
        """Returns the rows as {key: value}."""
        text = self.ask(f"SELECT key, value FROM d.{table} WHERE {where} ORDER BY key")
        rows = [line.split("\t") for line in text.splitlines()]
        assert len({key for key, _ in rows}) == len(rows), "a key has two rows"
        return {int(key): value for key, value in rows}

    def events(self):
        """Returns ClickHouse's own counters of what it has asked the cluster: {name without "ZooKeeper": number}."""
        text = self.ask("SELECT event, value FROM system.events WHERE event LIKE 'ZooKeeper%'")
        return {name[len("ZooKeeper"):]: int(value) for name, value in
                (line.split("\t") for line in text.splitlines())}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()  # the library's orderly end aborts
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


@contextlib.contextmanager
def _table(cluster, name):
    with ClickHouse(cluster) as clickhouse:
        clickhouse.ask(f"CREATE TABLE d.{name} " + TABLE.format(name=name))
        yield clickhouse


def _refuses(clickhouse, query):
    try:
        clickhouse.ask(query)
    except Refused as error:
        return str(error)
    raise AssertionError(f"not refused: {query}")


def shared_the_extensions_are_in_use(cluster):
    """ClickHouse uses what the server announces: one multiRead in place of many reads."""
    with _table(cluster, "used") as clickhouse:
        clickhouse.ask("INSERT INTO d.used SELECT number, 'a' FROM numbers(100)")
        before = clickhouse.events()
        clickhouse.ask("INSERT INTO d.used SELECT number, 'b' FROM numbers(100)")
        assert len(clickhouse.rows("used")) == 100
        after = clickhouse.events()
        requests = after["Transactions"] - before["Transactions"]
        multi_reads = after.get("MultiRead", 0) - before.get("MultiRead", 0)
        if settings_without_extensions in cluster.settings:
            assert multi_reads == 0 and requests > 200, (requests, multi_reads)
        else:
            assert multi_reads > 0 and requests < 50, (requests, multi_reads)
        return f"{requests} requests for two queries of 100 rows, {multi_reads} of them multiReads"


def shared_every_operation(cluster):
    with _table(cluster, "all") as clickhouse:
        clickhouse.ask("INSERT INTO d.all VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        assert clickhouse.rows("all") == {1: "a", 2: "b", 3: "c"}
        assert clickhouse.rows("all", "key = 2") == {2: "b"}
        assert clickhouse.rows("all", "key IN (1, 3, 4)") == {1: "a", 3: "c"}
        clickhouse.ask("INSERT INTO d.all VALUES (2, 'new')")
        strict = " SETTINGS keeper_map_strict_mode = 1"
        error = _refuses(clickhouse, f"INSERT INTO d.all{strict} VALUES (3, 'again')")
        assert "exists" in error, error
        clickhouse.ask(f"INSERT INTO d.all{strict} VALUES (4, 'd')")
        assert clickhouse.rows("all") == {1: "a", 2: "new", 3: "c", 4: "d"}
        clickhouse.ask(f"ALTER TABLE d.all UPDATE value = 'up' WHERE key = 1{strict}")
        clickhouse.ask("ALTER TABLE d.all UPDATE value = concat(value, '!') WHERE key > 2")
        clickhouse.ask("DELETE FROM d.all WHERE value LIKE 'new%'")
        assert clickhouse.rows("all") == {1: "up", 3: "c!", 4: "d!"}
        clickhouse.ask("TRUNCATE TABLE d.all")
        assert not clickhouse.rows("all")
        clickhouse.ask("INSERT INTO d.all SELECT number, toString(number) FROM numbers(500)")
        clickhouse.ask("DROP TABLE d.all")
        clickhouse.ask("CREATE TABLE d.all " + TABLE.format(name="all"))
        assert not clickhouse.rows("all"), "a dropped table leaves rows"
        return f"ClickHouse {clickhouse.version}; {clickhouse.events().get('Transactions', 0)} requests"


def shared_an_insert_of_twenty_thousand_rows(cluster):
    with _table(cluster, "large") as clickhouse:
        clickhouse.ask("INSERT INTO d.large SELECT number, toString(number) FROM numbers(20000)")
        assert clickhouse.ask("SELECT count(), sum(key) FROM d.large").split() == ["20000", "199990000"]
        sent = clickhouse.events()["BytesSent"]
        # More znodes than one recursive removal may take.
        clickhouse.ask("DROP TABLE d.large")
        clickhouse.ask("CREATE TABLE d.large " + TABLE.format(name="large"))
        assert not clickhouse.rows("large"), "a dropped table leaves rows"
        return f"{sent} bytes sent"


def shared_an_insert_that_is_too_long_fails_at_once(cluster):
    """ClickHouse would send it again without end if the connection were closed."""
    with _table(cluster, "long") as clickhouse:
        clickhouse.ask("INSERT INTO d.long VALUES (1, 'a')")
        before = clickhouse.events()
        error = _refuses(clickhouse, f"INSERT INTO d.long SELECT number, '' FROM numbers({TOO_LONG_ROWS})")
        assert "Bad arguments" in error, error
        assert clickhouse.events()["Init"] == before["Init"], "the connection was closed"
        assert clickhouse.rows("long") == {1: "a"}
        clickhouse.ask("INSERT INTO d.long VALUES (2, 'b')")
        assert clickhouse.rows("long") == {1: "a", 2: "b"}


def _random_query(chance, number):
    """Returns (query, the keys it may change, the change as a function of the old value; None deletes the row)."""
    value = f"v{number}"
    first = chance.randrange(KEYS)
    keys = sorted({(first + chance.randrange(20)) % KEYS for _ in range(chance.choice((1, 1, 5, 20)))})
    listed = ", ".join(map(str, keys))
    kind = chance.random()
    if kind < 0.6:
        rows = ", ".join(f"({key}, '{value}')" for key in keys)
        return f"INSERT INTO d.killed VALUES {rows}", keys, lambda old: value
    if kind < 0.8:
        return (f"ALTER TABLE d.killed UPDATE value = '{value}' WHERE key IN ({listed})", keys,
                lambda old: None if old is None else value)
    return f"DELETE FROM d.killed WHERE key IN ({listed})", keys, lambda old: None


def _rows_despite_kills(clickhouse):
    """Returns the rows. ClickHouse does not repeat a read whose member is killed meanwhile."""
    deadline = time.monotonic() + KILLING_SECONDS
    while True:
        try:
            return clickhouse.rows("killed")
        except Refused:
            if time.monotonic() > deadline:
                raise


def shared_rows_while_members_are_killed(cluster):
    """Two processes use the same table in turns. A query that is refused may have taken effect, for all of its rows or
    for some."""
    chance = random.Random(1)
    model, queries, refused = {}, 0, 0
    with _table(cluster, "killed") as first, _table(cluster, "killed") as second:
        killer = harness.Killer(cluster, KILLING_SECONDS)
        killer.start()
        try:
            end = time.monotonic() + KILLING_SECONDS
            while time.monotonic() < end:
                queries += 1
                query, keys, change = _random_query(chance, queries)
                after = {key: change(model.get(key)) for key in keys}
                try:
                    chance.choice((first, second)).ask(query)
                    doubtful = {}
                except Refused:
                    refused += 1
                    doubtful = {key: {model.get(key), after[key]} for key in keys}
                seen = _rows_despite_kills(first) if doubtful or queries % 10 == 0 else None
                for key in keys:
                    value = seen.get(key) if doubtful else after[key]
                    assert value in doubtful.get(key, {value}), f"row {key} is {value} after: {query}"
                    model[key] = value
                model = {key: value for key, value in model.items() if value is not None}
                assert seen is None or seen == model, f"after {queries} queries: {seen} and {model}"
        finally:
            kills = killer.stop()
        for clickhouse in (first, second):
            assert _rows_despite_kills(clickhouse) == model
    return f"{queries} queries, {refused} refused, {kills} members killed, {len(model)} rows as they have to be"

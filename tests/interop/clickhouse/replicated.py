# SPDX-License-Identifier: Apache-2.0
"""What docs/guides/clickhouse.md says of the move from another Keeper: a replicated table writes its metadata again into an empty
cluster.

ClickHouse as a library has no port for other replicas, without which it activates none: the table stays read-only afterwards."""

import tempfile

import harness
import keeper_map
import quorate_cli

ROWS = 1000  # of each part
READ_ONLY = "SELECT is_readonly FROM system.replicas WHERE database = 'd' AND table = 't'"


def _parts(cluster):
    """Returns the parts of the replica that the cluster knows; none without the replica."""
    listed = quorate_cli.run("shell", "--server", cluster.grpc(), "--", "ls", "/clickhouse/tables/d/t/replicas/r1/parts")
    if listed.returncode != 0:
        assert "Node does not exist" in listed.stdout + listed.stderr, listed
        return []
    return sorted(listed.stdout.strip().strip("[]").split(", "))


def _in_disk_order(clickhouse):
    return sorted(clickhouse.ask("SELECT name FROM system.parts WHERE database = 'd' AND table = 't' AND active").split())


def test_a_replicated_table_writes_its_metadata_into_an_empty_cluster():
    with harness.Cluster() as old, harness.Cluster() as new, tempfile.TemporaryDirectory(prefix="clickhouse-") as directory:
        with keeper_map.ClickHouse(old, directory, "Atomic") as clickhouse:
            clickhouse.ask("CREATE TABLE d.t (k UInt64, v String) ENGINE = MergeTree ORDER BY k")
            for part in range(2):
                clickhouse.ask(f"INSERT INTO d.t SELECT number + {part * ROWS}, toString(number) FROM numbers({ROWS})")
            clickhouse.ask("DETACH TABLE d.t")
            clickhouse.ask("ATTACH TABLE d.t AS REPLICATED")
            clickhouse.ask("SYSTEM RESTORE REPLICA d.t")
            parts = _in_disk_order(clickhouse)
            assert len(parts) == 2 and _parts(old) == parts, (parts, _parts(old))
        assert _parts(new) == []
        with keeper_map.ClickHouse(new, directory, "Atomic") as clickhouse:
            assert clickhouse.ask(READ_ONLY).strip() == "1", "the table does not miss its metadata"
            clickhouse.ask("SYSTEM RESTORE REPLICA d.t")
            assert _parts(new) == parts, (_parts(new), parts)
            assert clickhouse.ask("SELECT count(), sum(k) FROM d.t").split() == [str(2 * ROWS), str(ROWS * (2 * ROWS - 1))]
            return f"ClickHouse {clickhouse.version}, {len(parts)} parts"

// SPDX-License-Identifier: Apache-2.0

// What a seed chooses: the shape of the cluster, its limits, and its faults. Every kind of fault
// occurs only in some seeds (swarm testing: Groce and others 2012), so that one kind cannot hide
// what another would show.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace quorate::simulation {

// Probabilities are for one link or member in one second of virtual time, unless a comment says
// otherwise; 0 means that the fault does not occur.
struct NetworkOptions {
  int64_t delay_us = 300;             // mean of one way, with a long tail
  double loss = 0;                    // of one packet: a stream then waits for its retransmission
  double corruption = 0;              // of one packet: one bit flips
  double break_rate = 0;              // a connection breaks
  double clog_rate = 0;               // a link carries nothing for a while
  int64_t clog_us = 0;                // mean
  bool raft_is_datagrams = false;     // each Raft message travels alone: may overtake, and
  double message_loss = 0;            //   one may be lost
  double message_duplication = 0;     //   or come twice
  int64_t link_bytes_per_second = 0;  // between two members, one way; 0: no limit
  int64_t machine_bytes_per_second = 0;  // of a member, to all others, and from them; 0: no limit
  size_t window_bytes = 1 << 20;         // the most bytes in flight on a stream
  size_t queue_bytes_max = 64 << 20;     // bytes queued for a stream; more is dropped
  double partition_rate = 0;             // for the whole cluster
  int64_t partition_us = 0;              // mean
  bool asymmetric_partitions = false;    // some cuts go one way only
  double isolation_rate = 0;  // the leader loses contact with the others, not with clients
  // For an entry that the leader is the first to apply: the leader loses contact with the others at
  // once, so that they do not learn that the entry is committed.
  double cut_at_commit_chance = 0;
};

struct DiskOptions {
  int64_t write_us = 200;  // mean time of a batch of the log, with its sync
  double stall_rate = 0;   // the disk does nothing for a while
  int64_t stall_us = 0;    // mean
  double full_rate = 0;    // there is no space for a while
  double sync_error_rate = 0;
  double same_cache_chance = 0;  // of a failed sync: the process is started again without a reboot
  double operation_error_rate = 0;  // some operation fails
  double read_error_rate = 0;       // a read fails
  double bit_flip_chance = 0;       // at a restart: a bit of the log or of a checkpoint flips
  bool flips_everywhere = false;    // also of all other files
  double running_flip_rate = 0;     // while the process runs
  double lie_rate = 0;              // syncs of the log do nothing for a while, and power fails then
  double disk_loss_chance = 0;      // at a restart: the disk is new
  bool has_rocksdb = false;         // checkpoints are in RocksDB, as a server's, and not in a file
  bool majority_is_lost = false;    // at the end most disks are new: nothing may be bootstrapped
  int64_t new_disk_jump_ms = 0;     // the wall clock is off by up to this while a disk is new
};

struct MemberOptions {
  double crash_rate = 0;          // power failure
  double crash_in_step_rate = 0;  // power failure between two operations of the disk
  double kill_rate = 0;           // the process dies
  double kill_in_step_rate = 0;   // the process dies between two operations of the disk
  double strike_chance = 0;       // of a new leader: a fault happens to it at once
  bool take_turns = false;        // each new leader loses power soon, until the next one does
  double pause_rate = 0;          // the process is paused (SIGSTOP)
  int64_t down_us = 0;            // mean time until it is back, or resumed
  double clock_drift_max = 0;     // clocks run between 1 - this and 1 + this times as fast
  double clock_jump_rate = 0;     // the wall clock jumps
  int64_t clock_jump_ms = 0;      // by up to this, in either direction
  int64_t work_us = 50;           // mean time that a piece of work waits for its thread
};

struct ClusterOptions {
  size_t voters = 3;           // at the beginning
  size_t learners = 0;         // at the beginning
  size_t spares = 0;           // machines that membership changes may bring in
  double membership_rate = 0;  // changes of members, for the whole cluster
  // When a leader has appended a membership: power fails at a member soon, or the leader loses
  // contact with the others.
  double crash_in_change_chance = 0;
  double transfer_rate = 0;       // leadership is handed over on request
  double edit_chance = 0;         // at a restart: the configuration names other members
  double stray_rate = 0;          // a message from, or about, a wrong data directory of a member
  double old_version_chance = 0;  // a process starts as the previous version, while that is allowed
  uint64_t feeders = 0;  // the machines that feed observers while they follow; one bit for each
  // When the faults end, a member gets a new disk, and all members have to catch up while the
  // clients still write.
  bool writes_during_repair = false;
};

// Limits of the real servers, often tiny, so that every boundary is reached.
struct LimitOptions {
  int tick_ms = 15;
  int election_ticks = 20;
  int heartbeat_ticks = 4;
  size_t append_bytes_max = 0;  // 0 in this struct: the server's own value
  size_t inflight_messages_max = 0;
  size_t inflight_bytes_max = 0;
  size_t uncommitted_bytes_max = 0;
  size_t cached_bytes_max = 0;
  size_t apply_bytes_max = 0;
  size_t forward_window_bytes = 0;
  uint64_t segment_bytes = 0;
  uint64_t checkpoint_entries = 0;  // 0: never
  uint64_t trailing_entries = 0;
  uint64_t retained_entries_max = 0;
  uint64_t compaction_step_entries = 0;
  size_t snapshot_chunk_bytes = 0;
  size_t snapshot_bytes_per_tick = 0;
  size_t snapshot_window_bytes_max = 0;
  uint64_t transfer_bytes_max = 0;
  int snapshot_stall_ticks = 0;
  bool applies_here = false;   // also applies inline on the node thread, as a server does
  bool persists_here = false;  // the node thread also makes batches durable, as in a server
};

struct ClientOptions {
  size_t count = 4;
  int tick_time_ms = 1000;  // of the servers: sessions expire at multiples of it
  int min_session_timeout_ms = 2000;
  int max_session_timeout_ms = 20000;
  double operation_rate = 20;  // of one client, per second
  double onlooker_chance = 0;  // of a client: it only reads, and follows the leader
  size_t ballast_nodes = 0;    // in the tree from the beginning, so that snapshots take long
  size_t ballast_bytes = 0;    // of each of these nodes
  // If not 0: now and then all clients send writes of this size at once.
  size_t large_write_bytes = 0;
  bool uses_keeper = false;  // ZooKeeper clients also make ClickHouse Keeper's operations
  size_t native_count = 0;   // clients of the native protocol, beside the others
  // Clients of the native protocol also make transactions with compares, reads and missing parents.
  bool makes_transactions = false;
  size_t native_history_bytes = 0;  // of events kept by servers for them; 0: as a server
};

struct Options {
  uint64_t seed = 0;
  // Checks every promise and every commit against the disks, and not only some of them: each check
  // costs as much as many events.
  bool checks_everything = false;
  // How long faults and operations go on, before the cluster has to recover.
  int64_t chaos_us = 20'000'000;
  NetworkOptions network;
  DiskOptions disk;
  MemberOptions member;
  ClusterOptions cluster;
  LimitOptions limits;
  ClientOptions clients;
  // No faults, only load: the member that is elected first has to lead to the end.
  bool only_load = false;

  size_t machines() const { return cluster.voters + cluster.learners + cluster.spares; }
};

// The options that `seed` chooses; the same on every machine.
Options ChooseOptions(uint64_t seed);

// Which seeds have clients that make the operations of ClickHouse Keeper.
enum class KeeperSeeds { kSome, kAll, kNone };
// From now on, ChooseOptions() gives these seeds such clients. Without it: some.
void ChooseKeeperSeeds(KeeperSeeds seeds);

// From now on, ChooseOptions() keeps the checkpoints of all seeds in RocksDB instead of a file.
void PutStoresInRocksDb();

// Describes all options that differ from the usual; several lines.
std::string ToString(const Options& options);

}  // namespace quorate::simulation

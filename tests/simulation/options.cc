// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "tests/simulation/random.h"

namespace quorate::simulation {
namespace {

// The share of seeds in which everything is checked, and how long their faults last at most.
constexpr double kThoroughChance = 0.02;
constexpr int64_t kThoroughChaosUs = 5'000'000;

// The shares of seeds with a special kind of fault.
constexpr double kLieChance = 0.03;
constexpr double kWriteOnChance = 0.04;
constexpr double kMajorityLostChance = 0.02;
constexpr double kLagChance = 0.04;

// The share of seeds with checkpoints in RocksDB: such a run takes several times as long.
constexpr double kRocksDbChance = 0.125;

// The share of seeds with native clients.
constexpr double kNativeChance = 0.5;

// The share of seeds with operations of ClickHouse Keeper.
constexpr double kKeeperChance = 0.3;

// The share of seeds of each class in which members are changed often, besides those that their
// class gives changes; it is higher where members run different versions.
constexpr double kManyChangesChance = 0.2;
// Of seeds in which followers feed observers.
constexpr double kFeedingChance = 0.25;
constexpr double kManyChangesInUpgradeChance = 0.5;
// Of seeds with native clients in which these make transactions with branches.
constexpr double kTransactionsChance = 0.4;

KeeperSeeds g_keeper_seeds = KeeperSeeds::kSome;
bool g_stores_are_in_rocksdb = false;

template <class T>
T Pick(Random* random, const std::vector<T>& values) {
  return values[random->Below(values.size())];
}

// A rate that is mostly low, so that the cluster makes progress between faults; sometimes high.
double ChooseRate(Random* random, double usual_max) {
  return random->Unit() * usual_max * (random->Chance(0.15) ? 15 : 1);
}

NetworkOptions ChooseNetwork(Random* random) {
  NetworkOptions network;
  network.delay_us = Pick<int64_t>(random, {50, 300, 1'000, 5'000, 20'000});
  if (random->Chance(0.3)) network.loss = random->Unit() * 0.1;
  if (random->Chance(0.1)) network.corruption = random->Unit() * 0.01;
  if (random->Chance(0.4)) network.break_rate = ChooseRate(random, 0.1);
  if (random->Chance(0.3)) {
    network.clog_rate = random->Unit() * 0.1;
    network.clog_us = Pick<int64_t>(random, {20'000, 200'000, 1'000'000});
  }
  if (random->Chance(0.3)) {
    network.raft_is_datagrams = true;
    if (random->Chance(0.7)) network.message_loss = random->Unit() * 0.2;
    if (random->Chance(0.7)) network.message_duplication = random->Unit() * 0.3;
  }
  if (random->Chance(0.15)) {
    network.window_bytes = Pick<size_t>(random, {500, 5'000, 50'000});
    network.queue_bytes_max = Pick<size_t>(random, {500, 5'000, 50'000});
  }
  if (random->Chance(0.5)) {
    network.partition_rate = random->Unit() * 0.5;
    network.partition_us = Pick<int64_t>(random, {100'000, 700'000, 3'000'000, 8'000'000});
    network.asymmetric_partitions = random->Chance(0.5);
  }
  return network;
}

DiskOptions ChooseDisk(Random* random) {
  DiskOptions disk;
  disk.write_us = Pick<int64_t>(random, {20, 200, 2'000, 10'000});
  if (random->Chance(0.25)) {
    disk.stall_rate = random->Unit() * 0.1;
    disk.stall_us = Pick<int64_t>(random, {100'000, 1'000'000, 5'000'000});
  }
  if (random->Chance(0.1)) disk.full_rate = random->Unit() * 0.2;
  if (random->Chance(0.15)) disk.sync_error_rate = random->Unit() * 0.05;
  if (random->Chance(0.15)) disk.bit_flip_chance = random->Unit() * 0.5;
  if (random->Chance(0.2)) disk.disk_loss_chance = random->Unit() * 0.5;
  return disk;
}

void AddDiskFaults(Random* random, DiskOptions* disk) {
  if (disk->sync_error_rate > 0 && random->Chance(0.5)) disk->same_cache_chance = random->Unit();
  if (random->Chance(0.1)) disk->operation_error_rate = random->Unit() * 0.05;
  if (random->Chance(0.1)) disk->read_error_rate = random->Unit() * 0.05;
  if (disk->bit_flip_chance > 0) {
    disk->flips_everywhere = random->Chance(0.5);
    if (random->Chance(0.3)) disk->running_flip_rate = random->Unit() * 0.05;
  }
}

MemberOptions ChooseMember(Random* random) {
  MemberOptions member;
  if (random->Chance(0.5)) member.crash_rate = ChooseRate(random, 0.1);
  if (random->Chance(0.4)) member.crash_in_step_rate = ChooseRate(random, 0.1);
  if (random->Chance(0.4)) member.kill_rate = ChooseRate(random, 0.1);
  if (random->Chance(0.3)) member.pause_rate = ChooseRate(random, 0.05);
  if (random->Chance(0.2)) member.strike_chance = random->Unit() * 0.8;
  member.down_us = Pick<int64_t>(random, {20'000, 500'000, 3'000'000});
  if (random->Chance(0.3)) member.clock_drift_max = Pick<double>(random, {0.01, 0.1, 0.4});
  if (random->Chance(0.2)) {
    member.clock_jump_rate = random->Unit() * 0.1;
    member.clock_jump_ms = Pick<int64_t>(random, {50, 5'000, 86'400'000});
  }
  member.work_us = Pick<int64_t>(random, {5, 50, 500, 3'000});
  return member;
}

ClusterOptions ChooseCluster(Random* random) {
  ClusterOptions cluster;
  cluster.voters = Pick<size_t>(random, {1, 2, 3, 3, 3, 3, 4, 5, 5, 7});
  if (random->Chance(0.3)) cluster.learners = 1 + random->Below(2);
  if (random->Chance(0.3)) {
    cluster.spares = random->Below(3);
    cluster.membership_rate = ChooseRate(random, 0.5);
  }
  if (random->Chance(0.2)) cluster.transfer_rate = random->Unit() * 0.3;
  if (random->Chance(0.2)) cluster.old_version_chance = random->Unit();
  return cluster;
}

LimitOptions ChooseLimits(Random* random) {
  LimitOptions limits;
  // The other limits are chosen relative to the election timeout.
  limits.heartbeat_ticks = static_cast<int>(random->Between(1, 5));
  limits.election_ticks = limits.heartbeat_ticks + static_cast<int>(random->Between(2, 20));
  if (random->Chance(0.6)) limits.heartbeat_ticks = 4, limits.election_ticks = 20;
  if (random->Chance(0.3)) limits.append_bytes_max = 1 + random->Below(400);
  if (random->Chance(0.3)) limits.inflight_messages_max = 1 + random->Below(4);
  if (random->Chance(0.3)) {
    limits.inflight_bytes_max = 1 + random->Below(2'000);
    // A window holds at least one full message.
    limits.append_bytes_max = 1 + random->Below(limits.inflight_bytes_max);
  }
  if (random->Chance(0.2)) limits.uncommitted_bytes_max = 1 + random->Below(5'000);
  if (random->Chance(0.4)) limits.cached_bytes_max = 1 + random->Below(3'000);
  if (random->Chance(0.4)) limits.apply_bytes_max = 1 + random->Below(2'000);
  limits.segment_bytes = Pick<uint64_t>(random, {4'096, 16'384, 65'536, 1u << 20});
  if (random->Chance(0.7)) {
    limits.checkpoint_entries = Pick<uint64_t>(random, {1, 5, 20, 100, 500});
    limits.trailing_entries = Pick<uint64_t>(random, {0, 1, 10, 100});
    limits.retained_entries_max = limits.trailing_entries + Pick<uint64_t>(random, {0, 10, 1'000});
    limits.compaction_step_entries = Pick<uint64_t>(random, {1, 10, 100});
    limits.snapshot_chunk_bytes = Pick<size_t>(random, {200, 1'000, 4'096, 65'536});
    // High enough for the largest snapshots, one after another, within the recovery time.
    limits.snapshot_bytes_per_tick =
        std::max<size_t>(2'000, limits.snapshot_chunk_bytes * (1 + random->Below(8)));
  }
  return limits;
}

ClientOptions ChooseClients(Random* random) {
  ClientOptions clients;
  clients.count = 1 + random->Below(8);
  clients.tick_time_ms = Pick<int>(random, {200, 300, 500});
  clients.min_session_timeout_ms = 2 * clients.tick_time_ms;
  clients.max_session_timeout_ms = 20 * clients.tick_time_ms;
  clients.operation_rate = Pick<double>(random, {2, 10, 40, 100});
  return clients;
}

// Three members, of which two are up at a time; each new leader is struck before its first entries
// are replicated everywhere. This leads to figure 8 of the Raft paper, which other faults hardly
// ever reach. Or the leader is asked for other members at once, so that the member that comes back
// has to drop a membership again.
void LetLeadersTakeTurns(Random* random, Options* options) {
  const int64_t work_us = options->member.work_us;
  options->member = {};
  options->member.work_us = work_us;
  options->member.take_turns = true;
  options->member.down_us = 1'000'000;
  options->cluster = {};
  if (random->Chance(0.5)) {
    options->cluster.spares = 1;
    options->cluster.membership_rate = 0.2;
  }
  options->disk.disk_loss_chance = options->disk.bit_flip_chance = 0;
  options->disk.running_flip_rate = options->disk.operation_error_rate = 0;
  options->disk.read_error_rate = 0;
  options->disk.full_rate = options->disk.sync_error_rate = options->disk.stall_rate = 0;
  options->network.partition_rate = 0;
  options->chaos_us = 20'000'000;
  if (random->Chance(0.7)) {
    options->limits.append_bytes_max = options->limits.inflight_messages_max = 1;
  }
  if (random->Chance(0.5)) {
    // Clients read while the first entry of a new leader is on its way to slow disks.
    options->clients.count = std::max<size_t>(options->clients.count, 4);
    options->clients.onlooker_chance = 0.5;
    options->disk.write_us = 10'000;
  }
}

// Deposed leaders that still have clients, and clients that read from them: a leader that serves
// reads without its quorum is found only if no write comes before such a read.
void LetLeadersLoseTouch(Random* random, Options* options) {
  options->network.isolation_rate = 0.2 + 0.5 * random->Unit();
  options->cluster.voters = std::max<size_t>(options->cluster.voters, 3);
  options->clients.count = std::max<size_t>(options->clients.count, 4);
  options->clients.onlooker_chance = 0.5;
}

// Whether the log can carry about twice what the clients write even where messages are small and
// few, for entries of ordinary writes.
bool LogKeepsUp(const Options& options) {
  constexpr size_t kEntryBytes = 200;
  constexpr size_t kUnlimited = 1'000;
  const LimitOptions& limits = options.limits;
  const size_t in_message =
      limits.append_bytes_max == 0 ? kUnlimited : 1 + limits.append_bytes_max / kEntryBytes;
  const size_t messages =
      limits.inflight_messages_max == 0 ? kUnlimited : limits.inflight_messages_max;
  const size_t in_window =
      limits.inflight_bytes_max == 0 ? kUnlimited : 1 + limits.inflight_bytes_max / kEntryBytes;
  const auto entries = static_cast<double>(std::min(in_message * messages, in_window));
  const auto round_us = static_cast<double>(2 * options.network.delay_us + options.disk.write_us +
                                            2 * options.member.work_us);
  const double writes = static_cast<double>(options.clients.count) * options.clients.operation_rate;
  return entries * 1e6 / round_us >= 2 * writes;
}

// A leader answers clients, and then loses contact with the others; the next leader has the entries
// without knowing that they are committed. Clients that read wait for it, and it can confirm its
// leadership long before slow disks have its first entry.
void LetCommitsLag(Random* random, Options* options) {
  options->network = {};
  options->network.delay_us = Pick<int64_t>(random, {2'000, 5'000, 10'000});
  options->network.cut_at_commit_chance = 0.05 + 0.3 * random->Unit();
  options->disk = {};
  options->disk.write_us = Pick<int64_t>(random, {10'000, 30'000});
  options->member = {};
  options->cluster = {};
  options->cluster.voters = Pick<size_t>(random, {3, 3, 5});
  options->limits.heartbeat_ticks = 4;
  options->limits.election_ticks = 20;
  options->clients.count = std::max<size_t>(options->clients.count, 6);
  options->clients.operation_rate = 20;
  options->clients.onlooker_chance = 0.6;
  // With slow disks, a log that carries one entry at a time would be behind its clients for ever.
  if (!LogKeepsUp(*options)) {
    LimitOptions& limits = options->limits;
    limits.append_bytes_max = limits.inflight_messages_max = limits.inflight_bytes_max = 0;
  }
}

// A disk that loses what it had reported as written. Its member cannot know that; its leader does,
// and tells the member, if no other fault occurs until then: so links and elections are quiet.
void LetDisksLie(Random* random, Options* options) {
  const NetworkOptions before = options->network;
  options->network = {};
  options->network.partition_rate = before.partition_rate;
  options->network.partition_us = std::min<int64_t>(before.partition_us, 1'000'000);
  options->disk = {};
  options->disk.lie_rate = 0.1 + 0.2 * random->Unit();
  options->member.pause_rate = 0;
  options->member.crash_rate = 0.1 * random->Unit();
  options->member.clock_drift_max = 0;
  options->member.work_us = std::min<int64_t>(options->member.work_us, 500);
  options->member.down_us = std::min<int64_t>(options->member.down_us, 500'000);
  options->cluster = {};
  options->cluster.voters = Pick<size_t>(random, {3, 3, 5});
  options->limits.election_ticks = 20;
  options->limits.heartbeat_ticks = 4;
  options->chaos_us = 20'000'000;
}

// Snapshots that take longer than the log is retained, while clients write.
void LetClientsWriteOn(Random* random, Options* options) {
  options->cluster.writes_during_repair = true;
  options->cluster.voters = std::max<size_t>(options->cluster.voters, 3);
  options->cluster.old_version_chance = 0;
  options->chaos_us = std::min<int64_t>(options->chaos_us, 5'000'000);
  options->clients.count = std::max<size_t>(options->clients.count, 4);
  options->clients.operation_rate = 40;
  options->clients.ballast_nodes = Pick<size_t>(random, {50, 200, 400});
  options->clients.ballast_bytes = Pick<size_t>(random, {10, 200, 400});
  LimitOptions& limits = options->limits;
  limits.checkpoint_entries = Pick<uint64_t>(random, {20, 100});
  limits.trailing_entries = Pick<uint64_t>(random, {0, 10});
  limits.retained_entries_max = limits.trailing_entries + Pick<uint64_t>(random, {0, 10, 100});
  limits.compaction_step_entries = Pick<uint64_t>(random, {1, 10});
  // A log that carries one entry at a time lets a lagging member catch up no faster than the others
  // advance.
  if (!LogKeepsUp(*options)) {
    limits.append_bytes_max = limits.inflight_messages_max = limits.inflight_bytes_max = 0;
  }
  limits.snapshot_chunk_bytes = Pick<size_t>(random, {1'000, 4'096});
  limits.snapshot_bytes_per_tick = limits.snapshot_chunk_bytes * (1 + random->Below(4));
}

// No faults, but narrow links and large writes, with the servers' own sizes: if a leader is
// deposed, its heartbeats, or the responses to them, waited behind data.
void LetLinksBeNarrow(Random* random, Options* options) {
  const bool applies_here = options->limits.applies_here;
  const bool persists_here = options->limits.persists_here;
  options->chaos_us = 3'000'000;
  options->network = {};
  options->network.link_bytes_per_second =
      Pick<int64_t>(random, {12'000'000, 12'000'000, 31'000'000, 50'000'000});
  options->network.machine_bytes_per_second =
      options->network.link_bytes_per_second * Pick<int64_t>(random, {1, 2, 4});
  options->disk = {};
  options->member = {};
  options->cluster = {};
  if (random->Chance(0.3)) options->cluster.voters = 5;
  options->limits = {};
  options->limits.applies_here = applies_here;
  options->limits.persists_here = persists_here;
  options->limits.segment_bytes = 4u << 20;
  options->clients = {};
  options->clients.count = 6;
  options->clients.operation_rate = 2;
  options->clients.large_write_bytes = 1'000'000;
  options->only_load = true;
  options->checks_everything = false;
}

// Raises the snapshot rate, so that a receiver of the largest record gets the next chunk before it
// discards what it has staged. A record is sent as one chunk, and the next chunk is sent when the
// rate has allowed the bytes of this one. While writes wait, a leader reduces its rate to as little
// as a quarter, and all receivers share it. The servers' own rate is high enough for every record.
void LetLargestRecordsPass(Options* options) {
  constexpr int64_t kLargestRecordBytes = 550'000;
  constexpr int64_t kRateDivisor = 4;
  // So that several such records pass within the recovery time.
  constexpr int64_t kTicksMax = 1'300;
  LimitOptions& limits = options->limits;
  if (limits.checkpoint_entries == 0 || options->cluster.writes_during_repair) return;
  const int64_t stall_ticks = limits.snapshot_stall_ticks > 0
                                  ? limits.snapshot_stall_ticks
                                  : int64_t{100} * limits.election_ticks;
  const auto receivers = static_cast<int64_t>(options->machines());
  const int64_t rate =
      kRateDivisor * receivers * kLargestRecordBytes / std::min(stall_ticks, kTicksMax);
  limits.snapshot_bytes_per_tick =
      std::max(limits.snapshot_bytes_per_tick, static_cast<size_t>(rate));
}

// These faults have random streams of their own, so that seeds without them give the same runs as
// before.
void AddMoreFaults(uint64_t seed, Options* options) {
  const bool is_special = options->member.take_turns || options->disk.lie_rate > 0 ||
                          options->cluster.writes_during_repair || options->only_load;
  Random lag(seed, "lagging commits");
  if (lag.Chance(kLagChance) && !is_special && !options->disk.majority_is_lost) {
    LetCommitsLag(&lag, options);
    return;
  }
  Random edits(seed, "edited files");
  if (edits.Chance(0.1) && !is_special && options->cluster.voters > 1) {
    options->cluster.edit_chance = 0.2 + 0.6 * edits.Unit();
    // Until all members run the new version, no log holds the membership.
    if (edits.Chance(0.6)) options->cluster.old_version_chance = 0.7;
    if (edits.Chance(0.7)) options->member.kill_rate = 0.1 + 0.4 * edits.Unit();
  }
  Random clocks(seed, "clocks of new disks");
  if (options->disk.disk_loss_chance > 0 && clocks.Chance(0.5)) {
    options->disk.new_disk_jump_ms = Pick<int64_t>(&clocks, {1'000, 86'400'000, 31'536'000'000});
  }
  Random strays(seed, "stray messages");
  if (strays.Chance(0.1) && !is_special) options->cluster.stray_rate = 0.2 + 2 * strays.Unit();
  Random stalls(seed, "stalled stagings");
  if (options->limits.checkpoint_entries > 0 && stalls.Chance(0.2)) {
    options->limits.snapshot_stall_ticks =
        options->limits.election_ticks * static_cast<int>(stalls.Between(2, 8));
  }
}

// Growth and back, observers, replaced voters, removed leaders, moves to other addresses: often enough
// that whole sequences of changes complete. Not where disks lie or most disks are lost, because a
// change then leaves too few whole disks, and not where nothing but load may disturb a leader. Uses a
// random stream of its own, so that the other seeds give the same runs as before.
void AddManyChanges(uint64_t seed, Options* options) {
  Random random(seed, "many changes of members");
  ClusterOptions& cluster = options->cluster;
  const bool has_versions = cluster.old_version_chance > 0;
  if (!random.Chance(has_versions ? kManyChangesInUpgradeChance : kManyChangesChance)) return;
  if (options->only_load || options->disk.lie_rate > 0 || options->disk.majority_is_lost) return;
  cluster.membership_rate = 0.5 + 4 * random.Unit();
  cluster.spares = std::max<size_t>(cluster.spares, 1 + random.Below(2));
  if (random.Chance(0.6)) cluster.crash_in_change_chance = 0.5 * random.Unit();
  if (random.Chance(0.7)) {
    options->disk.disk_loss_chance = options->disk.bit_flip_chance = 0;
    options->disk.running_flip_rate = 0;
  }
}

// Observers that followers feed. Uses a random stream of its own, so that the other seeds give the same
// runs as before.
void AddFeeding(uint64_t seed, Options* options) {
  Random random(seed, "observers that followers feed");
  ClusterOptions& cluster = options->cluster;
  if (!random.Chance(kFeedingChance) || options->only_load || options->disk.lie_rate > 0 ||
      options->disk.majority_is_lost || options->member.take_turns) {
    return;
  }
  cluster.learners = std::max<size_t>(cluster.learners, 1 + random.Below(3));
  cluster.feeders = random.Chance(0.5) ? ~uint64_t{0} : random.Next();
}

// Uses a random stream of its own, so that seeds without these operations give the same runs as
// before.
bool UsesKeeper(uint64_t seed) {
  if (g_keeper_seeds != KeeperSeeds::kSome) return g_keeper_seeds == KeeperSeeds::kAll;
  return Random(seed, "keeper operations in options").Chance(kKeeperChance);
}

// Uses a random stream of its own, so that seeds without native clients give the same runs as
// before.
void AddNativeClients(uint64_t seed, Options* options) {
  Random native(seed, "native clients in options");
  if (!native.Chance(kNativeChance) || options->only_load || !LogKeepsUp(*options)) return;
  options->clients.native_count = 1 + native.Below(4);
  if (native.Chance(0.2)) options->clients.native_history_bytes = 1'000 + native.Below(20'000);
  if (g_keeper_seeds != KeeperSeeds::kSome) {
    options->clients.makes_transactions = g_keeper_seeds == KeeperSeeds::kAll;
  } else {
    options->clients.makes_transactions =
        Random(seed, "transactions in options").Chance(kTransactionsChance);
  }
}

}  // namespace

void ChooseKeeperSeeds(KeeperSeeds seeds) { g_keeper_seeds = seeds; }

void PutStoresInRocksDb() { g_stores_are_in_rocksdb = true; }

Options ChooseOptions(uint64_t seed) {
  Random random(seed, "options");
  Options options;
  options.seed = seed;
  options.chaos_us = Pick<int64_t>(&random, {2'000'000, 5'000'000, 10'000'000, 20'000'000});
  options.network = ChooseNetwork(&random);
  options.disk = ChooseDisk(&random);
  options.member = ChooseMember(&random);
  options.cluster = ChooseCluster(&random);
  options.limits = ChooseLimits(&random);
  options.limits.applies_here = seed % 2 == 0;
  options.limits.persists_here = seed % 4 < 2;
  options.clients = ChooseClients(&random);
  Random later(seed, "more faults");
  AddDiskFaults(&later, &options.disk);
  if (later.Chance(0.2)) options.member.kill_in_step_rate = ChooseRate(&later, 0.1);
  if (options.cluster.membership_rate > 0 && later.Chance(0.7)) {
    options.disk.disk_loss_chance = options.disk.bit_flip_chance = 0;
    options.disk.running_flip_rate = 0;
  }
  if (random.Chance(0.06)) LetLeadersTakeTurns(&random, &options);
  Random others(seed, "other options");
  if (!options.member.take_turns && others.Chance(0.15)) LetLeadersLoseTouch(&others, &options);
  if (!options.member.take_turns && later.Chance(kLieChance)) {
    LetDisksLie(&later, &options);
  } else if (!options.member.take_turns && later.Chance(kWriteOnChance)) {
    LetClientsWriteOn(&later, &options);
  } else if (options.cluster.voters >= 3 && options.cluster.membership_rate == 0) {
    options.disk.majority_is_lost = later.Chance(kMajorityLostChance);
  }
  if (later.Chance(0.2)) {
    options.limits.snapshot_window_bytes_max = Pick<size_t>(&later, {1, 3'000});
  }
  if (later.Chance(0.2) && !options.cluster.writes_during_repair) {
    options.limits.transfer_bytes_max = Pick<uint64_t>(&later, {1, 2'000, 50'000});
  }
  if (g_stores_are_in_rocksdb || Random(seed, "store").Chance(kRocksDbChance)) {
    options.disk.has_rocksdb = true;
    // Only the log's disk can be full, and bits are flipped only in the log's files.
    options.disk.full_rate = 0;
  }
  if (Random(seed, "checks").Chance(kThoroughChance)) {
    options.checks_everything = true;
    options.chaos_us = std::min(options.chaos_us, kThoroughChaosUs);
  }
  Random load(seed, "load");
  if (load.Chance(0.3)) options.limits.forward_window_bytes = 1 + load.Below(3'000);
  if (load.Chance(0.02)) LetLinksBeNarrow(&load, &options);
  AddMoreFaults(seed, &options);
  AddManyChanges(seed, &options);
  AddFeeding(seed, &options);
  LetLargestRecordsPass(&options);
  AddNativeClients(seed, &options);
  options.clients.uses_keeper = UsesKeeper(seed);
  return options;
}

std::string ToString(const Options& options) {
  std::string out = fmt::format(
      "cluster: {} voters, {} learners, {} spares; {} clients with {} operations a second{}; "
      "{} s of faults\n",
      options.cluster.voters, options.cluster.learners, options.cluster.spares,
      options.clients.count, options.clients.operation_rate,
      options.clients.onlooker_chance > 0 ? ", some of which look on" : "",
      static_cast<double>(options.chaos_us) * 1e-6);
  std::string line;
  auto begin = [&](std::string_view name) { line = std::string(name) + ":"; };
  auto add = [&](std::string_view name, auto value) {
    if (value != decltype(value){}) line += fmt::format(" {}={}", name, value);
  };
  auto end = [&] { out += line + "\n"; };

  if (options.checks_everything) out += "every promise and every commit is checked\n";
  const NetworkOptions& network = options.network;
  begin("network");
  add("delay_us", network.delay_us);
  add("loss", network.loss);
  add("corruption", network.corruption);
  add("break_rate", network.break_rate);
  add("clog_rate", network.clog_rate);
  add("clog_us", network.clog_us);
  add("raft_is_datagrams", network.raft_is_datagrams);
  add("message_loss", network.message_loss);
  add("message_duplication", network.message_duplication);
  add("link_bytes_per_second", network.link_bytes_per_second);
  add("machine_bytes_per_second", network.machine_bytes_per_second);
  add("window_bytes", network.window_bytes);
  add("queue_bytes_max", network.queue_bytes_max);
  add("partition_rate", network.partition_rate);
  add("partition_us", network.partition_us);
  add("asymmetric_partitions", network.asymmetric_partitions);
  add("isolation_rate", network.isolation_rate);
  add("cut_at_commit_chance", network.cut_at_commit_chance);
  end();

  const DiskOptions& disk = options.disk;
  begin("disk");
  add("write_us", disk.write_us);
  add("stall_rate", disk.stall_rate);
  add("stall_us", disk.stall_us);
  add("full_rate", disk.full_rate);
  add("sync_error_rate", disk.sync_error_rate);
  add("same_cache_chance", disk.same_cache_chance);
  add("operation_error_rate", disk.operation_error_rate);
  add("read_error_rate", disk.read_error_rate);
  add("bit_flip_chance", disk.bit_flip_chance);
  add("flips_everywhere", disk.flips_everywhere);
  add("running_flip_rate", disk.running_flip_rate);
  add("lie_rate", disk.lie_rate);
  add("disk_loss_chance", disk.disk_loss_chance);
  add("has_rocksdb", disk.has_rocksdb);
  add("majority_is_lost", disk.majority_is_lost);
  add("new_disk_jump_ms", disk.new_disk_jump_ms);
  end();

  const MemberOptions& member = options.member;
  begin("member");
  add("crash_rate", member.crash_rate);
  add("crash_in_step_rate", member.crash_in_step_rate);
  add("kill_rate", member.kill_rate);
  add("kill_in_step_rate", member.kill_in_step_rate);
  add("pause_rate", member.pause_rate);
  add("strike_chance", member.strike_chance);
  add("take_turns", member.take_turns);
  add("down_us", member.down_us);
  add("clock_drift_max", member.clock_drift_max);
  add("clock_jump_rate", member.clock_jump_rate);
  add("clock_jump_ms", member.clock_jump_ms);
  add("work_us", member.work_us);
  end();

  begin("cluster");
  add("membership_rate", options.cluster.membership_rate);
  add("crash_in_change_chance", options.cluster.crash_in_change_chance);
  add("transfer_rate", options.cluster.transfer_rate);
  add("old_version_chance", options.cluster.old_version_chance);
  add("edit_chance", options.cluster.edit_chance);
  add("stray_rate", options.cluster.stray_rate);
  add("feeders", options.cluster.feeders);
  add("writes_during_repair", options.cluster.writes_during_repair);
  add("ballast_nodes", options.clients.ballast_nodes);
  add("ballast_bytes", options.clients.ballast_bytes);
  add("uses_keeper", options.clients.uses_keeper);
  add("native_clients", options.clients.native_count);
  add("native_history_bytes", options.clients.native_history_bytes);
  add("makes_transactions", options.clients.makes_transactions);
  end();

  const LimitOptions& limits = options.limits;
  begin("limits");
  add("tick_ms", limits.tick_ms);
  add("election_ticks", limits.election_ticks);
  add("heartbeat_ticks", limits.heartbeat_ticks);
  add("append_bytes_max", limits.append_bytes_max);
  add("inflight_messages_max", limits.inflight_messages_max);
  add("inflight_bytes_max", limits.inflight_bytes_max);
  add("uncommitted_bytes_max", limits.uncommitted_bytes_max);
  add("cached_bytes_max", limits.cached_bytes_max);
  add("apply_bytes_max", limits.apply_bytes_max);
  add("forward_window_bytes", limits.forward_window_bytes);
  add("segment_bytes", limits.segment_bytes);
  add("checkpoint_entries", limits.checkpoint_entries);
  add("trailing_entries", limits.trailing_entries);
  add("retained_entries_max", limits.retained_entries_max);
  add("compaction_step_entries", limits.compaction_step_entries);
  add("snapshot_chunk_bytes", limits.snapshot_chunk_bytes);
  add("snapshot_bytes_per_tick", limits.snapshot_bytes_per_tick);
  add("snapshot_window_bytes_max", limits.snapshot_window_bytes_max);
  add("transfer_bytes_max", limits.transfer_bytes_max);
  add("snapshot_stall_ticks", limits.snapshot_stall_ticks);
  add("applies_here", limits.applies_here);
  add("persists_here", limits.persists_here);
  end();
  return out;
}

}  // namespace quorate::simulation

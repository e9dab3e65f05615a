// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/monitor.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace quorate::rpc::zk {
namespace {

bool InCluster(const MetricSources& s) { return !s.status.read_only && !s.status.standalone; }
bool InQuorum(const MetricSources& s) { return !s.status.standalone; }
bool LeadsOthers(const MetricSources& s) { return s.status.is_leader && !s.status.standalone; }

std::string PeerState(const MetricSources& s) {
  if (s.status.is_leader) return "leading - broadcast";
  return s.mode == "observer" ? "observing - broadcast" : "following - broadcast";
}

int64_t FailedHandshakes(const Statistics& statistics) {
  const auto elsewhere = statistics.handshakes_failed_elsewhere;
  return statistics.tls_handshakes_failed.load() + (elsewhere == nullptr ? 0 : elsewhere());
}

template <class T>
MetricValue ToValue(T value) {
  if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) {
    return uint64_t{value};
  } else if constexpr (std::is_integral_v<T>) {
    return int64_t{value};
  } else {
    return value;
  }
}

// Returns a number of microseconds without its fraction.
int64_t Whole(double us) { return std::llround(us); }
int64_t Whole(int64_t us) { return us; }

double PerSecond(const WindowLatencies& latencies) {
  return latencies.PerSecond(latencies.count());
}

#define QUORATE_VALUE(expression) \
  []([[maybe_unused]] const MetricSources& s) -> MetricValue { return ToValue(expression); }

constexpr Metric kMetrics[] = {
    {"version", MetricType::kText,
     "version of ZooKeeper that clients may count on, and the date of the build",
     QUORATE_VALUE(std::string(s.version))},
    {"server_state", MetricType::kText, "leader, follower, observer, standalone or read-only",
     QUORATE_VALUE(std::string(s.mode))},
    {"peer_state", MetricType::kText, "what the member does in its cluster",
     QUORATE_VALUE(PeerState(s)), InCluster},
    {"avg_latency", MetricType::kGauge, "average time from a request to its reply, in ms",
     QUORATE_VALUE(s.totals.latency_ms.average())},
    {"max_latency", MetricType::kGauge, "longest time from a request to its reply, in ms",
     QUORATE_VALUE(s.totals.latency_ms.max)},
    {"min_latency", MetricType::kGauge, "shortest time from a request to its reply, in ms",
     QUORATE_VALUE(s.totals.latency_ms.shown_min())},
    {"quorate_requests_1m_per_second", MetricType::kGauge,
     "requests in a second, on average of the last minute; pings do not count",
     QUORATE_VALUE(PerSecond(s.last_minute.all()))},
    {"quorate_reads_1m_per_second", MetricType::kGauge,
     "reads in a second, on average of the last minute",
     QUORATE_VALUE(PerSecond(s.last_minute.reads))},
    {"quorate_writes_1m_per_second", MetricType::kGauge,
     "writes in a second, on average of the last minute",
     QUORATE_VALUE(PerSecond(s.last_minute.writes))},
    {"quorate_latency_1m_avg_us", MetricType::kGauge,
     "average time from one of the requests of the last minute to its reply, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.all().average_us()))},
    {"quorate_latency_1m_p50_us", MetricType::kGauge,
     "time that half of the requests of the last minute did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.all().PercentileUs(0.5)))},
    {"quorate_latency_1m_p99_us", MetricType::kGauge,
     "time that 99 % of the requests of the last minute did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.all().PercentileUs(0.99)))},
    {"quorate_latency_1m_max_us", MetricType::kGauge,
     "longest time of the requests of the last minute, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.all().max_us))},
    {"quorate_read_latency_1m_avg_us", MetricType::kGauge,
     "average time from one of the reads of the last minute to its reply, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.reads.average_us()))},
    {"quorate_read_latency_1m_p50_us", MetricType::kGauge,
     "time that half of the reads of the last minute did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.reads.PercentileUs(0.5)))},
    {"quorate_read_latency_1m_p99_us", MetricType::kGauge,
     "time that 99 % of the reads of the last minute did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.reads.PercentileUs(0.99)))},
    {"quorate_read_latency_1m_max_us", MetricType::kGauge,
     "longest time of the reads of the last minute, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.reads.max_us))},
    {"quorate_write_latency_1m_avg_us", MetricType::kGauge,
     "average time from one of the writes of the last minute to its reply, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.writes.average_us()))},
    {"quorate_write_latency_1m_p50_us", MetricType::kGauge,
     "time that half of the writes of the last minute did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.writes.PercentileUs(0.5)))},
    {"quorate_write_latency_1m_p99_us", MetricType::kGauge,
     "time that 99 % of the writes of the last minute did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.writes.PercentileUs(0.99)))},
    {"quorate_write_latency_1m_max_us", MetricType::kGauge,
     "longest time of the writes of the last minute, in microseconds",
     QUORATE_VALUE(Whole(s.last_minute.writes.max_us))},
    {"quorate_requests_5m_per_second", MetricType::kGauge,
     "requests in a second, on average of the last five minutes; pings do not count",
     QUORATE_VALUE(PerSecond(s.last_five_minutes.all()))},
    {"quorate_latency_5m_avg_us", MetricType::kGauge,
     "average time from one of the requests of the last five minutes to its reply, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.all().average_us()))},
    {"quorate_latency_5m_p50_us", MetricType::kGauge,
     "time that half of the requests of the last five minutes did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.all().PercentileUs(0.5)))},
    {"quorate_latency_5m_p99_us", MetricType::kGauge,
     "time that 99 % of the requests of the last five minutes did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.all().PercentileUs(0.99)))},
    {"quorate_latency_5m_max_us", MetricType::kGauge,
     "longest time of the requests of the last five minutes, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.all().max_us))},
    {"quorate_read_latency_5m_avg_us", MetricType::kGauge,
     "average time from one of the reads of the last five minutes to its reply, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.reads.average_us()))},
    {"quorate_read_latency_5m_p50_us", MetricType::kGauge,
     "time that half of the reads of the last five minutes did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.reads.PercentileUs(0.5)))},
    {"quorate_read_latency_5m_p99_us", MetricType::kGauge,
     "time that 99 % of the reads of the last five minutes did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.reads.PercentileUs(0.99)))},
    {"quorate_read_latency_5m_max_us", MetricType::kGauge,
     "longest time of the reads of the last five minutes, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.reads.max_us))},
    {"quorate_write_latency_5m_avg_us", MetricType::kGauge,
     "average time from one of the writes of the last five minutes to its reply, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.writes.average_us()))},
    {"quorate_write_latency_5m_p50_us", MetricType::kGauge,
     "time that half of the writes of the last five minutes did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.writes.PercentileUs(0.5)))},
    {"quorate_write_latency_5m_p99_us", MetricType::kGauge,
     "time that 99 % of the writes of the last five minutes did not exceed, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.writes.PercentileUs(0.99)))},
    {"quorate_write_latency_5m_max_us", MetricType::kGauge,
     "longest time of the writes of the last five minutes, in microseconds",
     QUORATE_VALUE(Whole(s.last_five_minutes.writes.max_us))},
    {"packets_received", MetricType::kGauge,
     "requests received, the opening of sessions and pings included",
     QUORATE_VALUE(s.totals.packets_received)},
    {"packets_sent", MetricType::kGauge, "replies and events sent",
     QUORATE_VALUE(s.totals.packets_sent)},
    {"num_alive_connections", MetricType::kGauge, "open connections of ZooKeeper clients",
     QUORATE_VALUE(s.statistics.connections())},
    {"outstanding_requests", MetricType::kGauge, "requests received and not answered",
     QUORATE_VALUE(s.statistics.outstanding())},
    {"last_client_response_size", MetricType::kGauge, "bytes of the last reply; -1: none yet",
     QUORATE_VALUE(s.totals.response_bytes_last)},
    {"max_client_response_size", MetricType::kGauge, "bytes of the largest reply; -1: none yet",
     QUORATE_VALUE(s.totals.response_bytes_max)},
    {"min_client_response_size", MetricType::kGauge, "bytes of the smallest reply; -1: none yet",
     QUORATE_VALUE(s.totals.response_bytes_min)},
    {"connection_rejected", MetricType::kCounter, "connections refused because of a limit",
     QUORATE_VALUE(s.statistics.connections_refused.load())},
    {"outstanding_tls_handshake", MetricType::kGauge, "handshakes of TLS under way",
     QUORATE_VALUE(s.statistics.tls_handshakes.load())},
    {"quorate_tls_handshakes_waiting", MetricType::kGauge,
     "clients whose handshake of TLS waits until fewer are under way",
     QUORATE_VALUE(s.statistics.tls_handshakes_waiting.load())},
    {"unsuccessful_handshake", MetricType::kCounter, "handshakes of TLS that failed",
     QUORATE_VALUE(FailedHandshakes(s.statistics))},
    {"tls_handshake_exceeded", MetricType::kCounter,
     "connections closed because too many handshakes of TLS were under way",
     QUORATE_VALUE(s.statistics.tls_handshakes_refused.load())},
    {"non_mtls_local_conn_count", MetricType::kGauge,
     "connections from this machine at a port that takes clients without TLS",
     QUORATE_VALUE(s.statistics.local_connections_without_tls.load())},
    {"non_mtls_remote_conn_count", MetricType::kGauge,
     "connections from other machines at a port that takes clients without TLS",
     QUORATE_VALUE(s.statistics.remote_connections_without_tls.load())},
    {"quorate_administrators_refused", MetricType::kCounter,
     "wrong tokens and passwords of administrators",
     QUORATE_VALUE(s.statistics.administrators_refused.load())},
    {"quorate_grpc_connections_refused", MetricType::kCounter,
     "connections of gRPC clients refused because of a limit",
     QUORATE_VALUE(s.statistics.grpc_connections.refused.load())},
    {"quorate_grpc_connections_replaced", MetricType::kCounter,
     "connections of gRPC clients that were closed for newer ones before a call of theirs was "
     "admitted",
     QUORATE_VALUE(s.statistics.grpc_connections.replaced.load())},
    {"quorate_grpc_accepts_failed", MetricType::kCounter,
     "times that the system let the server accept no connection of a gRPC client",
     QUORATE_VALUE(s.statistics.grpc_connections.failed.load())},
    {"connection_request_count", MetricType::kCounter, "sessions requested",
     QUORATE_VALUE(s.totals.sessions_requested)},
    {"connection_revalidate_count", MetricType::kCounter,
     "sessions that came back over another connection",
     QUORATE_VALUE(s.totals.sessions_revalidated)},
    {"sessionless_connections_expired", MetricType::kCounter,
     "connections closed because no session was opened in time",
     QUORATE_VALUE(s.totals.handshakes_timed_out)},
    {"large_requests_rejected", MetricType::kCounter,
     "requests larger than jute.maxbuffer or maxMultiBytes",
     QUORATE_VALUE(s.totals.large_requests_rejected)},
    {"request_throttle_wait_count", MetricType::kCounter,
     "times that a connection was not read from because too much was outstanding",
     QUORATE_VALUE(s.totals.throttle_waits)},
    {"quorate_limit_tenants", MetricType::kGauge,
     "addresses and identities for which clients are counted", QUORATE_VALUE(s.tenants.size())},
    {"quorate_limit_connections_refused", MetricType::kCounter,
     "connections and streams closed because of limits.connectionsPerIdentity",
     QUORATE_VALUE(s.tenants.reached(Limit::kConnections))},
    {"quorate_limit_sessions_delayed", MetricType::kCounter,
     "new sessions that waited because of limits.sessionsPerSecond",
     QUORATE_VALUE(s.tenants.reached(Limit::kNewSessions))},
    {"quorate_limit_requests_delayed", MetricType::kCounter,
     "times that a client waited, or a call was refused, because of limits.requestsPerSecond",
     QUORATE_VALUE(s.tenants.reached(Limit::kRequests))},
    {"quorate_limit_outstanding_delayed", MetricType::kCounter,
     "times that a client waited, or a call was refused, because of limits.outstandingRequests",
     QUORATE_VALUE(s.tenants.reached(Limit::kOutstandingRequests))},
    {"quorate_limit_bytes_delayed", MetricType::kCounter,
     "times that a client waited, or was closed, because of limits.outstandingBytes",
     QUORATE_VALUE(s.tenants.reached(Limit::kOutstandingBytes))},
    {"quorate_limit_watches_refused", MetricType::kCounter,
     "watches refused because of limits.watches",
     QUORATE_VALUE(s.tenants.reached(Limit::kWatches))},
    {"quorate_limit_ephemerals_refused", MetricType::kCounter,
     "writes refused because of limits.ephemerals",
     QUORATE_VALUE(s.tenants.reached(Limit::kEphemerals))},
    {"quorate_limit_sessionless_closed", MetricType::kCounter,
     "connections without a request closed to make room for newer ones",
     QUORATE_VALUE(s.tenants.reached(Limit::kFirstRequest))},
    {"auth_failed_count", MetricType::kGauge, "failed authentications",
     QUORATE_VALUE(s.totals.auth_failures + s.failed_authentications)},
    {"bytes_received_count", MetricType::kCounter, "bytes received from ZooKeeper clients",
     QUORATE_VALUE(s.totals.bytes_received)},
    {"response_bytes", MetricType::kCounter, "bytes sent to ZooKeeper clients",
     QUORATE_VALUE(s.totals.bytes_sent)},
    {"readlatency", MetricType::kDistribution, "time from a read to its reply, in ms",
     QUORATE_VALUE(s.totals.read_latency_ms)},
    {"updatelatency", MetricType::kDistribution, "time from a write to its reply, in ms",
     QUORATE_VALUE(s.totals.update_latency_ms)},
    {"znode_count", MetricType::kGauge, "znodes in the tree", QUORATE_VALUE(s.tree.nodes)},
    {"ephemerals_count", MetricType::kGauge, "ephemeral znodes in the tree",
     QUORATE_VALUE(s.tree.ephemerals)},
    {"approximate_data_size", MetricType::kGauge, "bytes of the paths and data of all znodes",
     QUORATE_VALUE(s.tree.data_bytes)},
    {"global_sessions", MetricType::kGauge, "sessions of the cluster",
     QUORATE_VALUE(s.tree.sessions)},
    {"local_sessions", MetricType::kGauge, "sessions that only this server knows",
     QUORATE_VALUE(s.local_sessions)},
    {"watch_count", MetricType::kGauge, "watches of ZooKeeper clients of this server",
     QUORATE_VALUE(s.watches)},
    {"quorate_missed_events_sent", MetricType::kCounter,
     "events sent to clients that connected again, for persistent watches that had missed them",
     QUORATE_VALUE(s.totals.missed_events_sent)},
    {"quorate_missed_events_lost", MetricType::kCounter,
     "times that a client with persistent watches connected again and the history of events did "
     "not reach back to what it had seen",
     QUORATE_VALUE(s.totals.missed_events_lost)},
    {"open_file_descriptor_count", MetricType::kGauge, "open file descriptors of the process",
     QUORATE_VALUE(s.open_files)},
    {"max_file_descriptor_count", MetricType::kGauge, "file descriptors that the process may have",
     QUORATE_VALUE(s.open_files_max)},
    {"uptime", MetricType::kGauge, "time since the start, in ms", QUORATE_VALUE(s.uptime_ms)},
    {"quorate_all_watch_count", MetricType::kGauge, "watches of all clients of this server",
     QUORATE_VALUE(s.server.watches.count)},
    {"quorate_memory_limit_bytes", MetricType::kGauge,
     "memory that the server may take; 0: no limit", QUORATE_VALUE(s.memory.limit())},
    {"quorate_memory_resident_bytes", MetricType::kGauge, "resident memory of the process",
     QUORATE_VALUE(s.memory.resident_bytes())},
    {"quorate_memory_low", MetricType::kGauge,
     "1 while memory is nearly used up, and writes that add data are refused",
     QUORATE_VALUE(s.memory.low())},
    {"quorate_memory_tree_bytes", MetricType::kGauge, "memory of znodes",
     QUORATE_VALUE(s.tree.node_memory_bytes)},
    {"quorate_memory_sessions_bytes", MetricType::kGauge, "memory of sessions",
     QUORATE_VALUE(s.tree.session_memory_bytes)},
    {"quorate_memory_result_caches_bytes", MetricType::kGauge,
     "memory of kept responses to idempotent writes", QUORATE_VALUE(s.tree.answer_memory_bytes)},
    {"quorate_memory_watches_bytes", MetricType::kGauge, "memory of watches of all clients",
     QUORATE_VALUE(s.server.watches.bytes)},
    {"quorate_memory_unsent_bytes", MetricType::kGauge,
     "memory of replies and events that clients have not fetched",
     QUORATE_VALUE(s.memory.used(MemoryUse::kUnsent))},
    {"quorate_memory_reads_bytes", MetricType::kGauge, "memory of replies that are made in pieces",
     QUORATE_VALUE(s.memory.used(MemoryUse::kReads))},
    {"quorate_memory_requests_bytes", MetricType::kGauge,
     "memory of requests that are not complete, or wait for others",
     QUORATE_VALUE(s.memory.used(MemoryUse::kRequests))},
    {"quorate_memory_connections_closed", MetricType::kCounter,
     "connections and streams closed because memory was low", QUORATE_VALUE(s.memory.closed())},
    {"quorate_memory_requests_refused", MetricType::kCounter,
     "reads and new sessions refused because memory was low", QUORATE_VALUE(s.memory.refused())},
    {"quorum_size", MetricType::kGauge, "voters of the cluster", QUORATE_VALUE(s.status.voters),
     InQuorum},
    {"leader_uptime", MetricType::kGauge, "time since this server leads, in ms",
     QUORATE_VALUE(s.server.leader_uptime_ms), LeadsOthers},
    {"learners", MetricType::kGauge, "other members in contact with this leader",
     QUORATE_VALUE(s.server.learners), LeadsOthers},
    {"synced_followers", MetricType::kGauge, "followers that are up to date",
     QUORATE_VALUE(s.status.followers_in_sync), LeadsOthers},
    {"synced_observers", MetricType::kGauge, "observers that are up to date",
     QUORATE_VALUE(s.server.observers_in_sync), LeadsOthers},
    {"synced_non_voting_followers", MetricType::kGauge, "always 0: every follower has a vote",
     QUORATE_VALUE(int64_t{0}), LeadsOthers},
    {"pending_syncs", MetricType::kGauge, "syncs that wait for this leader",
     QUORATE_VALUE(s.server.pending_syncs), LeadsOthers},
    {"last_proposal_size", MetricType::kGauge, "bytes of the last command proposed; -1: none yet",
     QUORATE_VALUE(s.server.proposal_bytes_last), LeadsOthers},
    {"min_proposal_size", MetricType::kGauge,
     "bytes of the smallest command proposed; -1: none yet",
     QUORATE_VALUE(s.server.proposal_bytes_min), LeadsOthers},
    {"max_proposal_size", MetricType::kGauge, "bytes of the largest command proposed; -1: none yet",
     QUORATE_VALUE(s.server.proposal_bytes_max), LeadsOthers},
    {"proposal_count", MetricType::kCounter, "commands proposed by this server as leader",
     QUORATE_VALUE(s.server.proposals)},
    {"commit_count", MetricType::kCounter, "commands committed", QUORATE_VALUE(s.server.commits)},
    {"snap_count", MetricType::kCounter, "checkpoints written",
     QUORATE_VALUE(s.server.snapshot.count)},
    {"looking_count", MetricType::kCounter, "times that this server was without a leader",
     QUORATE_VALUE(s.server.lookings)},
    {"stale_sessions_expired", MetricType::kCounter,
     "sessions that this server has ended as leader, because nothing was received from their "
     "clients",
     QUORATE_VALUE(s.server.sessions_expired)},
    {"quorate_log_losses_count", MetricType::kCounter,
     "times that this server's disk had lost acknowledged entries of the log",
     QUORATE_VALUE(s.server.log_losses)},
    {"quorate_time_leaps_count", MetricType::kCounter,
     "times that a leader's clock was far from the time of the tree",
     QUORATE_VALUE(s.server.time_leaps)},
    {"quorate_tree_lock_waits", MetricType::kCounter,
     "times that changes waited for the lock of the tree",
     QUORATE_VALUE(s.server.tree_lock_waits.count)},
    {"quorate_tree_lock_waits_over_1ms", MetricType::kCounter, "such waits of more than 1 ms",
     QUORATE_VALUE(s.server.tree_lock_waits.over_1ms)},
    {"quorate_tree_lock_waits_over_5ms", MetricType::kCounter, "such waits of more than 5 ms",
     QUORATE_VALUE(s.server.tree_lock_waits.over_5ms)},
    {"quorate_tree_lock_wait_longest_us", MetricType::kGauge, "longest such wait, in microseconds",
     QUORATE_VALUE(s.server.tree_lock_waits.longest_us)},
    {"quorate_digest_compared_zxid", MetricType::kGauge,
     "zxid at which this server's tree was last equal to that of a majority",
     QUORATE_VALUE(s.server.digest_compared_zxid)},
    {"digest_mismatches_count", MetricType::kCounter,
     "members whose tree differed from that of a majority",
     QUORATE_VALUE(s.server.digest_mismatches)},
    {"quorate_digest_undecided", MetricType::kGauge,
     "1 while trees differ, and no majority has the same",
     QUORATE_VALUE(s.server.digest_is_undecided)},
    {"quorate_snapshot_received_bytes", MetricType::kGauge,
     "bytes of the snapshot that is being received; 0: none",
     QUORATE_VALUE(s.server.snapshot_bytes_received)},
    {"quorate_disk_free_bytes", MetricType::kGauge,
     "free space on the fullest disk of the server; -1: not measured",
     QUORATE_VALUE(s.server.disk_free_bytes)},
    {"quorate_disk_low", MetricType::kGauge,
     "1 while this server's free space is below diskReserveMb", QUORATE_VALUE(s.status.disk_low)},
    {"quorate_data_refused", MetricType::kGauge, "1 while writes that add data are refused",
     QUORATE_VALUE(s.status.data_refused)},
    {"quorate_raft_term", MetricType::kGauge, "term of Raft", QUORATE_VALUE(s.server.term)},
    {"quorate_raft_commit_index", MetricType::kGauge,
     "index of the last entry that this server knows to be committed",
     QUORATE_VALUE(s.server.commit_index)},
    {"quorate_raft_applied_index", MetricType::kGauge, "index of the last entry applied",
     QUORATE_VALUE(s.server.applied_index)},
    {"quorate_waiting_bytes", MetricType::kGauge,
     "bytes of commands of this server's clients that are not applied yet",
     QUORATE_VALUE(s.server.waiting_bytes)},
    {"quorate_leader_known", MetricType::kGauge, "1 while this server has a leader, or leads",
     QUORATE_VALUE(s.status.leader_known)},
    {"quorate_leader_contact_age_ms", MetricType::kGauge,
     "time since a leader was heard from and could be reached, in ms",
     QUORATE_VALUE(s.status.leader_contact_age_ms)},
    {"election_time", MetricType::kSummary, "time from having no leader to knowing one, in ms",
     QUORATE_VALUE(s.server.election)},
    {"unavailable_time", MetricType::kSummary, "time from having no leader to serving again, in ms",
     QUORATE_VALUE(s.server.unavailable)},
    {"leader_unavailable_time", MetricType::kSummary, "as unavailable_time, in ms",
     QUORATE_VALUE(s.server.unavailable)},
    {"fsynctime", MetricType::kSummary, "time that a sync of the log takes, in ms",
     QUORATE_VALUE(s.server.fsync)},
    {"snapshottime", MetricType::kSummary, "time that a checkpoint takes, in ms",
     QUORATE_VALUE(s.server.snapshot)},
};

#undef QUORATE_VALUE

// Sorted as in ZooKeeper's documentation. The sets with a label are left out: without a sample they
// have no line.
constexpr UnusedMetric kUnusedMetrics[] = {
    {"snapshot_error_count", MetricType::kCounter},
    {"snapshot_rate_limited_count", MetricType::kCounter},
    {"restore_time", MetricType::kSummary},
    {"restore_error_count", MetricType::kCounter},
    {"restore_rate_limited_count", MetricType::kCounter},
    {"dbinittime", MetricType::kSummary},
    {"startup_txns_loaded", MetricType::kSummary},
    {"startup_txns_load_time", MetricType::kSummary},
    {"startup_snap_load_time", MetricType::kSummary},
    {"propagation_latency", MetricType::kDistribution},
    {"proposal_latency", MetricType::kDistribution},
    {"proposal_ack_creation_latency", MetricType::kDistribution},
    {"commit_propagation_latency", MetricType::kDistribution},
    {"quorum_ack_latency", MetricType::kDistribution},
    {"follower_sync_time", MetricType::kSummary},
    {"observer_sync_time", MetricType::kSummary},
    {"diff_count", MetricType::kCounter},
    {"inflight_snap_count", MetricType::kSummary},
    {"inflight_diff_count", MetricType::kSummary},
    {"quit_leading_due_to_disloyal_voter", MetricType::kCounter},
    {"learner_proposal_received_count", MetricType::kCounter},
    {"learner_commit_received_count", MetricType::kCounter},
    {"learner_request_processor_queue_size", MetricType::kSummary},
    {"skip_learner_request_to_next_processor_count", MetricType::kCounter},
    {"om_proposal_process_time_ms", MetricType::kDistribution},
    {"om_commit_process_time_ms", MetricType::kDistribution},
    {"socket_closing_time", MetricType::kSummary},
    {"connection_token_deficit", MetricType::kSummary},
    {"connection_drop_count", MetricType::kCounter},
    {"revalidate_count", MetricType::kCounter},
    {"cnxn_closed_without_zk_server_running", MetricType::kCounter},
    {"ensemble_auth_success", MetricType::kCounter},
    {"ensemble_auth_fail", MetricType::kCounter},
    {"ensemble_auth_skip", MetricType::kCounter},
    {"insecure_admin_count", MetricType::kCounter},
    {"watch_bytes", MetricType::kCounter},
    {"netty_queued_buffer_capacity", MetricType::kSummary},
    {"node_created_watch_count", MetricType::kSummary},
    {"node_deleted_watch_count", MetricType::kSummary},
    {"node_changed_watch_count", MetricType::kSummary},
    {"node_children_watch_count", MetricType::kSummary},
    {"add_dead_watcher_stall_time", MetricType::kCounter},
    {"dead_watchers_queued", MetricType::kCounter},
    {"dead_watchers_cleared", MetricType::kCounter},
    {"dead_watchers_cleaner_latency", MetricType::kDistribution},
    {"response_packet_cache_hits", MetricType::kCounter},
    {"response_packet_cache_misses", MetricType::kCounter},
    {"response_packet_get_children_cache_hits", MetricType::kCounter},
    {"response_packet_get_children_cache_misses", MetricType::kCounter},
    {"prep_processor_queue_time_ms", MetricType::kDistribution},
    {"prep_processor_queue_size", MetricType::kSummary},
    {"prep_processor_request_queued", MetricType::kCounter},
    {"outstanding_changes_queued", MetricType::kCounter},
    {"outstanding_changes_removed", MetricType::kCounter},
    {"prep_process_time", MetricType::kSummary},
    {"proposal_process_time", MetricType::kSummary},
    {"close_session_prep_time", MetricType::kDistribution},
    {"sync_processor_queue_time_ms", MetricType::kDistribution},
    {"sync_processor_queue_size", MetricType::kSummary},
    {"sync_processor_request_queued", MetricType::kCounter},
    {"sync_processor_queue_and_flush_time_ms", MetricType::kDistribution},
    {"sync_processor_queue_flush_time_ms", MetricType::kDistribution},
    {"sync_process_time", MetricType::kSummary},
    {"sync_processor_batch_size", MetricType::kSummary},
    {"read_commit_proc_req_queued", MetricType::kSummary},
    {"write_commit_proc_req_queued", MetricType::kSummary},
    {"commit_commit_proc_req_queued", MetricType::kSummary},
    {"request_commit_queued", MetricType::kCounter},
    {"read_commit_proc_issued", MetricType::kSummary},
    {"write_commit_proc_issued", MetricType::kSummary},
    {"requests_in_session_queue", MetricType::kSummary},
    {"pending_session_queue_size", MetricType::kSummary},
    {"reads_after_write_in_session_queue", MetricType::kSummary},
    {"reads_issued_from_session_queue", MetricType::kSummary},
    {"session_queues_drained", MetricType::kSummary},
    {"time_waiting_empty_pool_in_commit_processor_read_ms", MetricType::kSummary},
    {"write_batch_time_in_commit_processor", MetricType::kSummary},
    {"concurrent_request_processing_in_commit_processor", MetricType::kSummary},
    {"read_commitproc_time_ms", MetricType::kDistribution},
    {"write_commitproc_time_ms", MetricType::kDistribution},
    {"local_write_committed_time_ms", MetricType::kDistribution},
    {"server_write_committed_time_ms", MetricType::kDistribution},
    {"commit_process_time", MetricType::kSummary},
    {"requests_not_forwarded_to_commit_processor", MetricType::kCounter},
    {"read_final_proc_time_ms", MetricType::kDistribution},
    {"write_final_proc_time_ms", MetricType::kDistribution},
    {"throttled_ops", MetricType::kCounter},
    {"stale_requests", MetricType::kCounter},
    {"stale_requests_dropped", MetricType::kCounter},
    {"stale_replies", MetricType::kCounter},
    {"request_throttle_queue_time_ms", MetricType::kDistribution},
    {"unrecoverable_error_count", MetricType::kCounter},
    {"jvm_pause_time_ms", MetricType::kDistribution},
    {"connection_drop_probability", MetricType::kGauge},
    {"fsync_threshold_exceed_count", MetricType::kGauge},
};

// Passes the parts of values on.
class Parts {
 public:
  explicit Parts(const UsePlainValue& use) : use_(use) {}

  void Add(std::string_view name, const MetricValue& value) {
    std::visit([&](const auto& v) { AddValue(std::string(name), v); }, value);
  }

 private:
  template <class T>
  void AddValue(const std::string& name, const T& value) {
    use_(name, value);
  }
  void AddValue(const std::string& name, const TimeSummary& times) {
    AddSummary(name, times.count, times.sum_ms, times.min_ms, times.max_ms);
  }
  void AddValue(const std::string& name, const Distribution& values) {
    AddSummary(name, values.count, values.sum, values.shown_min(), values.max);
    use_("p50_" + name, values.Percentile(0.5));
    use_("p95_" + name, values.Percentile(0.95));
    use_("p99_" + name, values.Percentile(0.99));
    use_("p999_" + name, values.Percentile(0.999));
  }
  void AddSummary(const std::string& name, int64_t count, int64_t sum, int64_t min, int64_t max) {
    const double average = count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
    use_("avg_" + name, average);
    use_("min_" + name, min);
    use_("max_" + name, max);
    use_("cnt_" + name, count);
    use_("sum_" + name, sum);
  }

  const UsePlainValue& use_;
};

}  // namespace

TreeTotals::TreeTotals(const tree::Tree& tree)
    : nodes(tree.node_count()),
      ephemerals(tree.ephemeral_count()),
      data_bytes(tree.data_bytes()),
      sessions(tree.session_count()),
      node_memory_bytes(tree.node_memory_bytes()),
      session_memory_bytes(tree.session_memory_bytes()),
      answer_memory_bytes(tree.answer_memory_bytes()) {}

TreeTotals TreeTotals::Read(const Service& service) {
  const auto tree = service.ReadTree();
  return TreeTotals(*tree);
}

std::span<const Metric> Metrics() { return kMetrics; }

std::span<const UnusedMetric> UnusedMetrics() { return kUnusedMetrics; }

std::string DecimalText(double value) {
  std::string text = absl::StrFormat("%.4f", value);
  while (text.back() == '0' && text[text.size() - 2] != '.') text.pop_back();
  return text;
}

void ForEachValue(const MetricSources& sources, const UsePlainValue& use) {
  Parts parts(use);
  for (const Metric& metric : kMetrics) {
    if (metric.is_shown != nullptr && !metric.is_shown(sources)) continue;
    parts.Add(metric.name, metric.value(sources));
  }
}

void ForEachUnusedValue(const UsePlainValue& use) {
  Parts parts(use);
  for (const UnusedMetric& metric : kUnusedMetrics) {
    switch (metric.type) {
      case MetricType::kSummary:
        parts.Add(metric.name, TimeSummary());
        break;
      case MetricType::kDistribution:
        parts.Add(metric.name, Distribution());
        break;
      default:
        parts.Add(metric.name, int64_t{0});
    }
  }
}

std::string MonitorText(const MetricSources& sources) {
  std::string text;
  ForEachValue(sources, [&text](std::string_view name, const PlainValue& value) {
    absl::StrAppend(&text, "zk_", ToAbsl(name), "\t");
    std::visit(
        [&text]<class T>(const T& v) {
          if constexpr (std::is_same_v<T, double>) {
            text += DecimalText(v);
          } else {
            absl::StrAppend(&text, v);
          }
        },
        value);
    text += '\n';
  });
  return text;
}

}  // namespace quorate::rpc::zk

// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/monitor.h"

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
    {"packets_received", MetricType::kCounter,
     "requests received, the opening of sessions and pings included",
     QUORATE_VALUE(s.totals.packets_received)},
    {"packets_sent", MetricType::kCounter, "replies and events sent",
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
    {"unsuccessful_handshake", MetricType::kCounter, "handshakes of TLS that failed",
     QUORATE_VALUE(FailedHandshakes(s.statistics))},
    {"tls_handshake_exceeded", MetricType::kCounter,
     "connections closed because too many handshakes of TLS were under way",
     QUORATE_VALUE(s.statistics.tls_handshakes_refused.load())},
    {"non_mtls_local_conn_count", MetricType::kCounter,
     "connections from this machine at a port that takes clients without TLS",
     QUORATE_VALUE(s.statistics.local_connections_without_tls.load())},
    {"non_mtls_remote_conn_count", MetricType::kCounter,
     "connections from other machines at a port that takes clients without TLS",
     QUORATE_VALUE(s.statistics.remote_connections_without_tls.load())},
    {"quorate_administrators_refused", MetricType::kCounter,
     "wrong tokens and passwords of administrators",
     QUORATE_VALUE(s.statistics.administrators_refused.load())},
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
    {"auth_failed_count", MetricType::kCounter, "failed authentications",
     QUORATE_VALUE(s.totals.auth_failures + s.failed_authentications)},
    {"bytes_received_count", MetricType::kCounter, "bytes received from ZooKeeper clients",
     QUORATE_VALUE(s.totals.bytes_received)},
    {"response_bytes", MetricType::kCounter, "bytes sent to ZooKeeper clients",
     QUORATE_VALUE(s.totals.bytes_sent)},
    {"readlatency", MetricType::kDistribution, "time from a read to its reply, in ms",
     QUORATE_VALUE(s.totals.read_latency_ms)},
    {"updatelatency", MetricType::kDistribution, "time from a write to its reply, in ms",
     QUORATE_VALUE(s.totals.update_latency_ms)},
    {"znode_count", MetricType::kGauge, "znodes in the tree", QUORATE_VALUE(s.tree.node_count())},
    {"ephemerals_count", MetricType::kGauge, "ephemeral znodes in the tree",
     QUORATE_VALUE(s.tree.ephemeral_count())},
    {"approximate_data_size", MetricType::kGauge, "bytes of the paths and data of all znodes",
     QUORATE_VALUE(s.tree.data_bytes())},
    {"global_sessions", MetricType::kGauge, "sessions of the cluster",
     QUORATE_VALUE(s.tree.session_count())},
    {"local_sessions", MetricType::kGauge, "sessions that only this server knows",
     QUORATE_VALUE(s.read_only_sessions)},
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
     QUORATE_VALUE(s.tree.node_memory_bytes())},
    {"quorate_memory_sessions_bytes", MetricType::kGauge, "memory of sessions",
     QUORATE_VALUE(s.tree.session_memory_bytes())},
    {"quorate_memory_result_caches_bytes", MetricType::kGauge,
     "memory of kept responses to idempotent writes", QUORATE_VALUE(s.tree.answer_memory_bytes())},
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
    {"election_time", MetricType::kSummary, "time from having no leader to knowing one, in ms",
     QUORATE_VALUE(s.server.election)},
    {"unavailable_time", MetricType::kSummary, "time from having no leader to serving again, in ms",
     QUORATE_VALUE(s.server.unavailable)},
    {"fsynctime", MetricType::kSummary, "time that a sync of the log takes, in ms",
     QUORATE_VALUE(s.server.fsync)},
    {"snapshottime", MetricType::kSummary, "time that a checkpoint takes, in ms",
     QUORATE_VALUE(s.server.snapshot)},
};

#undef QUORATE_VALUE

class Lines {
 public:
  void Add(std::string_view name, const MetricValue& value) {
    std::visit([&](const auto& v) { AddValue(std::string(name), v); }, value);
  }
  std::string&& text() && { return std::move(text_); }

 private:
  void AddLine(const std::string& name, const absl::AlphaNum& value) {
    absl::StrAppend(&text_, "zk_", name, "\t", value, "\n");
  }
  void AddValue(const std::string& name, int64_t value) { AddLine(name, value); }
  void AddValue(const std::string& name, uint64_t value) { AddLine(name, value); }
  void AddValue(const std::string& name, double value) { AddLine(name, DecimalText(value)); }
  void AddValue(const std::string& name, const std::string& value) { AddLine(name, value); }
  void AddValue(const std::string& name, const TimeSummary& times) {
    AddSummary(name, times.count, times.sum_ms, times.min_ms, times.max_ms);
  }
  void AddValue(const std::string& name, const Distribution& values) {
    AddSummary(name, values.count, values.sum, values.shown_min(), values.max);
    AddLine("p50_" + name, values.Percentile(0.5));
    AddLine("p95_" + name, values.Percentile(0.95));
    AddLine("p99_" + name, values.Percentile(0.99));
    AddLine("p999_" + name, values.Percentile(0.999));
  }
  void AddSummary(const std::string& name, int64_t count, int64_t sum, int64_t min, int64_t max) {
    const double average = count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
    AddLine("avg_" + name, DecimalText(average));
    AddLine("min_" + name, min);
    AddLine("max_" + name, max);
    AddLine("cnt_" + name, count);
    AddLine("sum_" + name, sum);
  }

  std::string text_;
};

}  // namespace

std::span<const Metric> Metrics() { return kMetrics; }

std::string DecimalText(double value) {
  std::string text = absl::StrFormat("%.4f", value);
  while (text.back() == '0' && text[text.size() - 2] != '.') text.pop_back();
  return text;
}

std::string MonitorText(const MetricSources& sources) {
  Lines lines;
  for (const Metric& metric : kMetrics) {
    if (metric.is_shown != nullptr && !metric.is_shown(sources)) continue;
    lines.Add(metric.name, metric.value(sources));
  }
  return std::move(lines).text();
}

}  // namespace quorate::rpc::zk

// SPDX-License-Identifier: Apache-2.0

// The table of metrics, and the lines made from it.
#include "rpc/zookeeper/monitor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>

#include "rpc/zookeeper/server_info.h"

namespace quorate::rpc::zk {
namespace {

struct Sources {
  ServerStatus status;
  ServerMetrics server;
  MemoryBudget memory;
  TenantTable tenants;
  Statistics statistics;
  Statistics::Totals totals;
  tree::Tree tree;

  std::string Text() {
    return MonitorText({.status = status,
                        .server = server,
                        .memory = memory,
                        .tenants = tenants,
                        .statistics = statistics,
                        .totals = totals,
                        .tree = TreeTotals(tree),
                        .last_minute = {},
                        .last_five_minutes = {},
                        .version = "1.0",
                        .mode = "observer",
                        .open_files_max = UINT64_MAX});
  }
};

TEST_CASE("each metric has a name of its own and a help text") {
  std::set<std::string_view> names;
  for (const Metric& metric : Metrics()) {
    INFO(std::string(metric.name));
    CHECK(names.insert(metric.name).second);
    CHECK(metric.help.size() >= 10);
    CHECK(metric.help.back() != '.');
  }
}

TEST_CASE("each metric has its lines, in the order of the table") {
  Sources sources;
  sources.status.is_leader = true;  // a leader has all metrics
  const std::string text = sources.Text();
  size_t at = 0;
  for (const Metric& metric : Metrics()) {
    const bool is_summary =
        metric.type == MetricType::kSummary || metric.type == MetricType::kDistribution;
    const std::string line =
        std::string(is_summary ? "zk_avg_" : "zk_") + std::string(metric.name) + "\t";
    INFO(line);
    const size_t found = text.find(line, at);
    REQUIRE(found != std::string::npos);
    CHECK((found == 0 || text[found - 1] == '\n'));
    at = found;
  }
}

TEST_CASE("a metric that ZooKeeper does not have is named quorate_...") {
  // The keys of ZooKeeper's mntr that are shown here.
  const std::set<std::string_view> of_zookeeper = {"approximate_data_size",
                                                   "auth_failed_count",
                                                   "avg_latency",
                                                   "bytes_received_count",
                                                   "commit_count",
                                                   "connection_rejected",
                                                   "connection_request_count",
                                                   "connection_revalidate_count",
                                                   "digest_mismatches_count",
                                                   "election_time",
                                                   "ephemerals_count",
                                                   "fsynctime",
                                                   "global_sessions",
                                                   "large_requests_rejected",
                                                   "outstanding_tls_handshake",
                                                   "tls_handshake_exceeded",
                                                   "unsuccessful_handshake",
                                                   "non_mtls_local_conn_count",
                                                   "non_mtls_remote_conn_count",
                                                   "last_client_response_size",
                                                   "last_proposal_size",
                                                   "leader_uptime",
                                                   "learners",
                                                   "local_sessions",
                                                   "looking_count",
                                                   "max_client_response_size",
                                                   "max_file_descriptor_count",
                                                   "max_latency",
                                                   "max_proposal_size",
                                                   "min_client_response_size",
                                                   "min_latency",
                                                   "min_proposal_size",
                                                   "num_alive_connections",
                                                   "open_file_descriptor_count",
                                                   "outstanding_requests",
                                                   "packets_received",
                                                   "packets_sent",
                                                   "peer_state",
                                                   "pending_syncs",
                                                   "proposal_count",
                                                   "quorum_size",
                                                   "readlatency",
                                                   "request_throttle_wait_count",
                                                   "response_bytes",
                                                   "server_state",
                                                   "sessionless_connections_expired",
                                                   "snap_count",
                                                   "snapshottime",
                                                   "stale_sessions_expired",
                                                   "synced_followers",
                                                   "synced_non_voting_followers",
                                                   "synced_observers",
                                                   "leader_unavailable_time",
                                                   "unavailable_time",
                                                   "updatelatency",
                                                   "uptime",
                                                   "version",
                                                   "watch_count",
                                                   "znode_count"};
  for (const Metric& metric : Metrics()) {
    INFO(metric.name);
    CHECK(of_zookeeper.contains(metric.name) != metric.name.starts_with("quorate_"));
  }
}

TEST_CASE("values are shown as ZooKeeper shows them") {
  Sources sources;
  sources.totals.latency_ms = {.count = 4, .sum = 5};
  sources.status.disk_low = true;
  sources.server.fsync.Add(3);
  sources.server.fsync.Add(4);
  const std::string text = sources.Text();
  for (const std::string line :
       {"zk_avg_latency\t1.25", "zk_quorate_disk_low\t1", "zk_quorate_data_refused\t0",
        "zk_quorate_disk_free_bytes\t-1", "zk_max_file_descriptor_count\t18446744073709551615",
        "zk_avg_fsynctime\t3.5", "zk_min_fsynctime\t3", "zk_max_fsynctime\t4",
        "zk_cnt_fsynctime\t2", "zk_sum_fsynctime\t7", "zk_p999_readlatency\t0",
        "zk_peer_state\tobserving - broadcast"}) {
    INFO(line);
    CHECK(text.find("\n" + line + "\n") != std::string::npos);
  }
  CHECK(text.find("zk_learners") == std::string::npos);
  sources.status.standalone = true;
  CHECK(sources.Text().find("zk_peer_state") == std::string::npos);
  CHECK(sources.Text().find("zk_quorum_size") == std::string::npos);
}

TEST_CASE("a process without a free descriptor has as many open as it may") {
  const auto before = ServerInfo::CountDescriptors();
  CHECK(before.open > 0);
  // All descriptors below the lowest free one are open.
  const int lowest_free = dup(0);
  REQUIRE(lowest_free > 0);
  close(lowest_free);
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit full{static_cast<rlim_t>(lowest_free), limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &full) == 0);
  const auto descriptors = ServerInfo::CountDescriptors();
  setrlimit(RLIMIT_NOFILE, &limit);
  CHECK(descriptors.open == lowest_free);
  CHECK(descriptors.max == full.rlim_cur);
}

}  // namespace
}  // namespace quorate::rpc::zk

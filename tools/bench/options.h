// SPDX-License-Identifier: Apache-2.0

// The options of a measurement.
//
// Thread-safety: values without state of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpc/zookeeper/wire/tls.h"

namespace quorate::tools::bench {

// One of the one or two clusters.
struct ClusterOptions {
  std::string label;
  // "host:port,host:port": client ports, or gRPC ports if `native`.
  std::string servers;
  bool native = false;
  bool tls = false;  // connections have TLS, with Options::tls_files
  // The servers' processes, to measure their processor time; empty: found by their listening ports.
  std::vector<int> pids{};
  // For failover: shell commands in which {member} is the leader's number among `servers`, from 1.
  std::string kill_command{};
  std::string restart_command{};
  // The number of idle sessions beside those of the workload, and of the watches that they share.
  size_t idle_sessions = 0;
  size_t idle_watches = 0;
  // Values for this cluster that override those of Options.
  std::optional<size_t> data_bytes{};
  std::optional<uint32_t> populated{};
};

// The shape of the tree that populate creates below the root.
enum class Shape : uint8_t {
  kFlat,              // all znodes are children of one znode
  kDirectories,       // groups of 20 znodes: a directory and its 19 children
  kLargeDirectories,  // directories of 1,000 znodes; the directories do not count
  kChains,            // chains of 20 znodes, each the only child of its parent
};

struct Options {
  // One cluster, or two to compare.
  std::vector<ClusterOptions> clusters;
  std::vector<std::string> workloads;
  wire::TlsFiles tls_files;

  size_t connections = 30;
  // The number of outstanding requests on each connection.
  size_t depth = 1;
  size_t data_bytes = 100;
  uint32_t keys = 1000;
  // If not 0, the keys are this many znodes that populate has left below the root.
  uint32_t populated = 0;
  uint32_t children = 10;
  uint32_t multi_operations = 2;
  size_t watchers = 1000;
  uint32_t count = 100'000;  // the number of znodes that populate creates
  Shape shape = Shape::kLargeDirectories;
  size_t name_bytes = 8;  // of each znode that populate creates
  int rounds = 3;         // of failover
  double rate = 1000;     // of open-loop and failover, in operations per second
  // The share of reads; negative: the workload's own value.
  double read_share = -1;
  // The measured time of each workload at each cluster, and the time before it that does not count.
  double seconds = 10;
  double warm_up_seconds = 2;
  // The length of a slice of the measured time.
  double slice_seconds = 1;
  int session_timeout_ms = 30'000;
  // The znode below which all others are created.
  std::string root;
  // Whether the znodes stay when the measurement ends.
  bool keep = false;

  std::string html_path;
  bool json = false;
};

}  // namespace quorate::tools::bench

// What is to be measured.
//
// Thread-safety: values without state of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quorate::tools::bench {

// One of at most two clusters.
struct ClusterOptions {
  std::string label;
  // "host:port,host:port": client ports, or gRPC ports if `native`.
  std::string servers;
  bool native = false;
  // Of the servers, for their processor time; empty: found by the ports on which they listen.
  std::vector<int> pids{};
  // For failover. Shell commands in which {member} is the leader's number among `servers`, from 1.
  std::string kill_command{};
  std::string restart_command{};
  // Sessions beside those of the workload, and the watches that they share.
  size_t idle_sessions = 0;
  size_t idle_watches = 0;
  // In place of those of Options.
  std::optional<size_t> data_bytes{};
  std::optional<uint32_t> populated{};
};

// Of the tree that populate makes, below the root.
enum class Shape : uint8_t {
  kFlat,              // all of them children of one node
  kDirectories,       // directories of 20 nodes, themselves counted
  kLargeDirectories,  // of 1,000 nodes, themselves not counted
  kChains,            // chains of 20 nodes, each the only child of the one above
};

struct Options {
  // One, or two to compare.
  std::vector<ClusterOptions> clusters;
  std::vector<std::string> workloads;

  size_t connections = 30;
  // Requests under way on each connection.
  size_t depth = 1;
  size_t data_bytes = 100;
  uint32_t keys = 1000;
  // Not 0: the keys are so many nodes which populate has left below the root.
  uint32_t populated = 0;
  uint32_t children = 10;
  uint32_t multi_operations = 2;
  size_t watchers = 1000;
  uint32_t count = 100'000;  // of populate
  Shape shape = Shape::kLargeDirectories;
  size_t name_bytes = 8;  // of each node that populate makes
  int rounds = 3;         // of failover
  double rate = 1000;     // of open-loop and failover, operations in a second
  // Negative: as the workload has it.
  double read_share = -1;
  // Of each workload at each cluster, and before that without counting.
  double seconds = 10;
  double warm_up_seconds = 2;
  // Length of a slice of it.
  double slice_seconds = 1;
  int session_timeout_ms = 30'000;
  // The node below which all others are made.
  std::string root;
  // Leaves the nodes there.
  bool keep = false;

  std::string html_path;
  bool json = false;
};

}  // namespace quorate::tools::bench

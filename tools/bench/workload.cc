// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/workload.h"

#include "absl/strings/str_format.h"
#include "base/assert.h"
#include "base/strings.h"
#include "tools/bench/loop_workloads.h"
#include "tools/bench/session_workloads.h"

namespace quorate::tools::bench {
namespace {

// The kind of the sync request. The workload's own kinds of requests are not negative.
constexpr int32_t kSyncKind = -1;

}  // namespace

void Workload::Start(Slice* slice, int64_t now_ns) {
  slice_ = slice;
  is_running_ = true;
  OnStart(now_ns);
}

void Workload::Detach() {
  is_running_ = false;
  ignored_.emplace(series().size());
  slice_ = &*ignored_;
}

void Workload::OnUp(Connection& connection, int64_t now_ns) {
  is_synced_.resize(connections_->size(), false);
  if (is_synced_[connection.number()]) return;
  engine_.Send(connection, wire::kSync, kSyncKind, 0, now_ns).body().String("/");
}

void Workload::OnReply(Connection& connection, const Request& request, tree::ErrorCode error,
                       std::string_view body, int64_t now_ns) {
  if (request.kind != kSyncKind) return OnAnswer(connection, request, error, body, now_ns);
  if (is_synced_[connection.number()]) return;
  is_synced_[connection.number()] = true;
  ++synced_;
}

void Workload::OnLost(Connection&, const Request& request, int64_t) {
  if (request.kind != kSyncKind) Fail("connection lost");
}

void Workload::Fail(const std::string& what) {
  if (slice_ != nullptr) ++slice_->errors[what];
}

void Workload::Fail(tree::ErrorCode error) { Fail(std::string(tree::ToString(error))); }

const std::vector<WorkloadDescription>& AllWorkloads() {
  static const std::vector<WorkloadDescription> kAll = {
      {"write", "setData of random keys", true},
      {"read", "getData of random keys", true},
      {"mix", "90 % getData, 10 % setData (--read-share)", true},
      {"ephemeral", "create an ephemeral sequential znode, then delete it", false},
      {"multi", "transactions of setData (--multi-operations)", false},
      {"children", "getChildren of a znode with --children", false},
      {"open-loop",
       "half getData, half setData at a fixed --rate; latency from the time at which "
       "a request should have begun",
       false},
      {"connect", "open a session and close it", false},
      {"watch", "one write and --watchers sessions that watch: time until the last event", false},
      {"lock", "a lock that all connections contend for, by the usual recipe", false},
      {"idle", "keep --connections idle sessions: an operation is a session for a second", false},
      {"populate", "create --count znodes, in a tree of a --shape", false},
      {"failover",
       "kill the leader under writes at --rate: how long writes pause; see --cluster "
       "and --kill-command",
       false},
  };
  return kAll;
}

const std::vector<ShapeDescription>& AllShapes() {
  static const std::vector<ShapeDescription> kAll = {
      {Shape::kFlat, "flat"},
      {Shape::kDirectories, "directories"},
      {Shape::kLargeDirectories, "large-directories"},
      {Shape::kChains, "chains"}};
  return kAll;
}

const char* NameOf(Shape shape) {
  for (const ShapeDescription& known : AllShapes()) {
    if (known.shape == shape) return known.name;
  }
  ASSERT(false, "there are no other shapes");
}

std::optional<Shape> ShapeOf(std::string_view name) {
  for (const ShapeDescription& known : AllShapes()) {
    if (known.name == name) return known.shape;
  }
  return std::nullopt;
}

std::unique_ptr<Workload> MakeWorkload(const std::string& name, const Options& options,
                                       Engine* engine) {
  std::unique_ptr<Workload> workload = MakeLoopWorkload(name, options, engine);
  if (workload == nullptr) workload = MakeSessionWorkload(name, options, engine);
  ASSERT(workload != nullptr);
  return workload;
}

std::string NumberedPath(std::string_view directory, char letter, uint32_t number) {
  return absl::StrFormat("%s/%c%07d", ToAbsl(directory), letter, number);
}

}  // namespace quorate::tools::bench

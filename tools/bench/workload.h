// SPDX-License-Identifier: Apache-2.0

// The work of the connections to a cluster during a measurement.
//
// The order of events is: the znodes of SetUp are created; the connections come up; Start and Stop
// are called for each slice, and HasStopped until it returns true; the connections are closed.
//
// Thread-safety: that of the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/engine.h"
#include "tools/bench/options.h"
#include "tools/bench/slice.h"

namespace quorate::tools::bench {

// A znode that a workload needs.
struct NodeToMake {
  std::string path;
  std::string data;
};

class Workload : public ConnectionHandler {
 public:
  // `options` must outlive the workload.
  Workload(const Options& options, Engine* engine) : options_(options), engine_(*engine) {}

  // Returns the names of the measured latencies, the most important one first.
  virtual std::vector<std::string> series() const = 0;
  // Returns the znodes to create, parents before their children.
  virtual std::vector<NodeToMake> SetUp() const = 0;
  virtual size_t connection_count() const { return options_.connections; }
  // Returns whether connections stay parked until Start connects them.
  virtual bool parked() const { return false; }

  // Sets the connections that Engine::Add has made for this workload.
  void SetConnections(Connections* connections) { connections_ = connections; }
  // Returns whether every connection was up once and its server has the znodes of SetUp.
  bool is_ready() const { return synced_ >= connections_->size() || parked(); }

  // Works from now on and records into `*slice`, which must live until the workload has stopped.
  void Start(Slice* slice, int64_t now_ns);
  // Records into another slice from now on.
  void Switch(Slice* slice) { slice_ = slice; }
  // Starts no new operation.
  void Stop() { is_running_ = false; }
  // Starts no new operation, and records no further answers.
  void Detach();
  // Returns whether no request is outstanding.
  virtual bool HasStopped() const = 0;
  // Returns whether all work is done before the time is over.
  virtual bool is_exhausted() const { return false; }

  void OnUp(Connection& connection, int64_t now_ns) override;
  void OnReply(Connection& connection, const Request& request, tree::ErrorCode error,
               std::string_view body, int64_t now_ns) final;
  void OnLost(Connection& connection, const Request& request, int64_t now_ns) override;

 protected:
  virtual void OnStart(int64_t now_ns) = 0;
  virtual void OnAnswer(Connection& connection, const Request& request, tree::ErrorCode error,
                        std::string_view body, int64_t now_ns) = 0;

  bool is_running() const { return is_running_; }
  const Options& options() const { return options_; }
  Engine& engine() { return engine_; }
  const Connections& connections() const { return *connections_; }
  // Returns the current slice. REQUIRES: Start was called.
  Slice& slice() { return *slice_; }

  // Records the error of an operation.
  void Fail(const std::string& what);
  void Fail(tree::ErrorCode error);

 private:
  const Options& options_;
  Engine& engine_;
  Connections* connections_ = nullptr;
  std::vector<bool> is_synced_;
  size_t synced_ = 0;
  bool is_running_ = false;
  Slice* slice_ = nullptr;
  std::optional<Slice> ignored_;  // receives the records while nothing is measured
};

struct WorkloadDescription {
  const char* name;
  const char* text;
  bool has_native;
};
const std::vector<WorkloadDescription>& AllWorkloads();

struct ShapeDescription {
  Shape shape;
  const char* name;
};
const std::vector<ShapeDescription>& AllShapes();
const char* NameOf(Shape shape);
std::optional<Shape> ShapeOf(std::string_view name);

// Returns the workload `name`. REQUIRES: `name` is one of AllWorkloads(); `*engine` must outlive
// the workload.
std::unique_ptr<Workload> MakeWorkload(const std::string& name, const Options& options,
                                       Engine* engine);

// Returns the path of a numbered znode: "/root/k0000007".
std::string NumberedPath(std::string_view directory, char letter, uint32_t number);

}  // namespace quorate::tools::bench

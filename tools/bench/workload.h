// What the connections to a cluster do while it is measured.
//
// Order of events: the nodes of SetUp are created; the connections come up; Start and Stop follow
// each other, once for each slice, with HasStopped in between; the connections are closed.
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

// A node that a workload needs.
struct NodeToMake {
  std::string path;
  std::string data;
};

class Workload : public ConnectionHandler {
 public:
  // `options` must outlive the workload.
  Workload(const Options& options, Engine* engine) : options_(options), engine_(*engine) {}

  // The names of the measured latencies, the most important one first.
  virtual std::vector<std::string> series() const = 0;
  // Parents come before their children.
  virtual std::vector<NodeToMake> SetUp() const = 0;
  virtual size_t connection_count() const { return options_.connections; }
  // Whether connections wait to be connected by Start.
  virtual bool parked() const { return false; }

  // The connections that Engine::Add has made for this workload.
  void SetConnections(Connections* connections) { connections_ = connections; }
  // Whether every connection was up once and its server has seen the nodes of SetUp.
  bool is_ready() const { return synced_ >= connections_->size() || parked(); }

  // Works from now on and records into `*slice`, which must live until the workload has stopped.
  void Start(Slice* slice, int64_t now_ns);
  // Records into another slice from now on.
  void Switch(Slice* slice) { slice_ = slice; }
  // Starts nothing new.
  void Stop() { is_running_ = false; }
  // Starts nothing new, and records no further answers.
  void Detach();
  // Whether nothing is under way any more.
  virtual bool HasStopped() const = 0;
  // Whether all work is done before the time is over.
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
  // REQUIRES: there was a Start.
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

// REQUIRES: `name` is one of AllWorkloads(); `*engine` must outlive the workload.
std::unique_ptr<Workload> MakeWorkload(const std::string& name, const Options& options,
                                       Engine* engine);

// "/root/k0000007".
std::string NumberedPath(std::string_view directory, char letter, uint32_t number);

}  // namespace quorate::tools::bench

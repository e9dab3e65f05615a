// SPDX-License-Identifier: Apache-2.0

#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/bench/control.h"
#include "tools/bench/load.h"
#include "tools/bench/workload.h"

namespace quorate::tools::bench {
namespace {

constexpr int64_t kConnectTimeoutNs = 60 * kNsInSecond;

class WireLoad : public Load {
 public:
  WireLoad(const std::string& name, const Options& options, const std::vector<Endpoint>& servers,
           Engine* engine)
      : options_(options),
        servers_(servers),
        engine_(*engine),
        workload_(MakeWorkload(name, options, engine)) {}
  ~WireLoad() override {
    if (connections_ != nullptr) engine_.Remove(connections_);
  }

  std::vector<std::string> series() const override { return workload_->series(); }

  bool sees_pauses() const override { return true; }

  absl::Status Prepare() override {
    const std::vector<NodeToMake> nodes = workload_->SetUp();
    if (!nodes.empty()) {
      std::vector<NodeToMake> all;
      for (size_t at = options_.root.find('/', 1); at != std::string::npos;
           at = options_.root.find('/', at + 1)) {
        all.push_back({options_.root.substr(0, at), ""});
      }
      all.insert(all.end(), nodes.begin(), nodes.end());
      if (absl::Status s = MakeNodes(&engine_, servers_, all); !s.ok()) return s;
      has_nodes_ = true;
    }
    connections_ =
        engine_.Add(workload_->connection_count(), servers_, workload_.get(), workload_->parked());
    workload_->SetConnections(connections_);
    if (engine_.RunUntil(NowNs() + kConnectTimeoutNs, [this] { return workload_->is_ready(); })) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(
        absl::StrCat("not all of ", connections_->size(), " sessions could be opened within ",
                     kConnectTimeoutNs / kNsInSecond, " s: ", engine_.last_failure(),
                     " (the servers may limit connections: maxClientCnxns)"));
  }

  void Start(Slice* slice) override { workload_->Start(slice, NowNs()); }
  void Next(Slice* slice) override { workload_->Switch(slice); }
  void WorkUntil(int64_t deadline_ns) override {
    engine_.RunUntil(deadline_ns, [this] { return workload_->is_exhausted(); });
  }
  absl::Status Stop() override {
    workload_->Stop();
    const bool has_stopped =
        engine_.RunUntil(NowNs() + kDrainTimeoutNs, [this] { return workload_->HasStopped(); });
    workload_->Detach();
    if (has_stopped) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(
        "requests were not answered within ", kDrainTimeoutNs / kNsInSecond, " s",
        engine_.last_failure().empty() ? "" : absl::StrCat(" (", engine_.last_failure(), ")")));
  }
  bool is_exhausted() const override { return workload_->is_exhausted(); }

  void Detach() override { workload_->Detach(); }

  absl::Status Finish() override {
    if (connections_ != nullptr) engine_.Remove(std::exchange(connections_, nullptr));
    if (!has_nodes_ || options_.keep) return absl::OkStatus();
    return RemoveNodes(&engine_, servers_, options_.root);
  }

 private:
  const Options& options_;
  const std::vector<Endpoint>& servers_;
  Engine& engine_;
  const std::unique_ptr<Workload> workload_;
  Connections* connections_ = nullptr;
  bool has_nodes_ = false;
};

}  // namespace

std::unique_ptr<Load> MakeWireLoad(const std::string& name, const Options& options,
                                   const std::vector<Endpoint>& servers, Engine* engine) {
  return std::make_unique<WireLoad>(name, options, servers, engine);
}

}  // namespace quorate::tools::bench

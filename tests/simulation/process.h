// SPDX-License-Identifier: Apache-2.0

// A server process on a simulated machine: the real replica, front end and log, executed step by
// step. Each step is an event of its own, so that all other events can occur in between.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "consensus/log/data_dir.h"
#include "rpc/config/config.h"
#include "rpc/frontend/frontends.h"
#include "rpc/member/replica.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/frontend.h"
#include "tests/simulation/client_network.h"
#include "tests/simulation/disk_pressure_oracle.h"
#include "tests/simulation/machine.h"
#include "tests/simulation/native_server.h"
#include "tests/simulation/process_lifetime.h"
#include "tests/simulation/sim_peer_network.h"
#include "tree/store/record_store.h"

namespace quorate::simulation {

class Process : public rpc::ReplicaHost,
                public rpc::Frontend,
                public rpc::ApplyObserver,
                public rpc::PeerHandler {
 public:
  // Opens the directory and starts serving. Errors: those of opening a data directory.
  static absl::StatusOr<std::unique_ptr<Process>> Start(Machine* machine);
  ~Process() override;

  // Ends the process. With `silent`, no peer or client is notified.
  void End(bool silent);

  rpc::Replica& replica() { return *replica_; }
  consensus::Raft& raft() { return replica_->node().raft(); }
  consensus::DataDir& data_dir() { return *data_dir_; }
  SimulatedLinks& links() { return links_; }
  ProcessLifetime& lifetime() { return *lifetime_; }
  DiskPressureOracle& oracle() { return oracle_; }
  // Runs `task` on its node thread.
  void Post(std::function<void()> task);
  // Opens the data directory of a machine on `env`.
  static absl::StatusOr<std::unique_ptr<consensus::DataDir>> OpenDataDir(Machine* machine,
                                                                         consensus::Env* env);
  // Opens the store beside the data directory.
  static absl::StatusOr<std::unique_ptr<tree::RecordStore>> OpenStore(Machine* machine,
                                                                      consensus::Env* env);
  const tree::RecordStore& store() const { return *store_; }
  // Whether the configuration with which this process was started names the newest address of the
  // member. REQUIRES: there are several machines.
  bool IsConfiguredWithNewest(size_t member) const;
  // The last index applied to the state machine.
  consensus::Index applied() const { return applied_; }

  std::string Describe();

 private:
  using Work = consensus::Node::Work;
  static constexpr std::array kWorks = {Work::kNode, Work::kLog, Work::kApply, Work::kRead,
                                        Work::kCheckpoint};

  Process(Machine* machine, std::unique_ptr<consensus::DataDir> data_dir,
          std::unique_ptr<tree::RecordStore> store, uint64_t incarnation);
  absl::Status Begin();
  void ConfigureAddresses(rpc::ReplicaOptions* options);
  void RestoreAddresses();
  void CheckConfigNode(const tree::Tree& tree);

  void ScheduleTick();
  ClusterChecker::Progress progress();
  // Schedules the work that is pending.
  void Poke();
  void Step(Work work);
  int64_t LatencyUs(Work work);
  // Reports the disk's free space to the replica, periodically, as a server does.
  void MeasureDisk();
  // Updates the times at which this member may refuse writes, for the tick that begins.
  void TickDiskPressureOracle();

  // rpc::ReplicaHost
  void OnFatal(const absl::Status& error) override;
  void OnEnd(absl::Status why) override;
  absl::Status SaveIncarnation(uint64_t incarnation) override;
  void OnDiverged(const rpc::Divergence& divergence) override;
  void OnStatusPublished() override {}

  // rpc::Frontend: passes each call on to the real front ends and to the checkers.
  bool AllowsInlineApply() const override;
  std::shared_ptr<const rpc::RecentEvents> TakeRecentEvents() const override;
  void OnRecentEvents(std::span<const std::string> parts, tree::Zxid zxid) override;
  void OnTreeReplaced(const tree::Tree& tree) override;
  bool WantsNodeValues() const override { return frontends_->WantsNodeValues(); }
  void OnNodeValues(const tree::EventValues& values) override { frontends_->OnNodeValues(values); }
  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls& acls) override;
  void OnSessionAttached(const tree::SessionInfo& session) override;
  void OnSessionClosed(tree::SessionId session, tree::Zxid zxid) override;
  void OnResult(tree::ApplyResult result) override;
  void OnBatchApplied() override;
  void OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) override;

  // rpc::ApplyObserver
  void OnEntryApplied(const consensus::Entry& entry, const tree::Tree& tree) override;

  // rpc::PeerHandler: passes each call on to the replica, and disk reports also to the oracle.
  absl::Status OnPeerBatch(consensus::MemberId from, rpc::PeerBatch batch) override;
  void OnPeerUp(consensus::MemberId member) override { replica_->OnPeerUp(member); }
  void OnPeerDown(consensus::MemberId member) override { replica_->OnPeerDown(member); }
  void OnOtherCluster(consensus::MemberId member, const std::string& cluster_id) override {
    replica_->OnOtherCluster(member, cluster_id);
  }

  class RaftRandom : public consensus::RandomSource {
   public:
    explicit RaftRandom(Random random) : random_(random) {}
    uint64_t Next() override { return random_.Next(); }

   private:
    Random random_;
  };
  class ByteRandom : public RandomBytes {
   public:
    explicit ByteRandom(Random random) : random_(random) {}
    void Fill(char* bytes, size_t size) override {
      for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(random_.Next());
    }

   private:
    Random random_;
  };

  Machine& machine_;
  Simulation& simulation_;
  ClusterChecker& checker_;
  Random& latency_random_;
  const size_t number_;
  const std::shared_ptr<ProcessLifetime> lifetime_;
  const rpc::Config config_;
  RaftRandom raft_random_;
  ByteRandom byte_random_;
  std::unique_ptr<consensus::DataDir> data_dir_;
  std::unique_ptr<tree::RecordStore> store_;
  DiskPressureOracle oracle_;
  SimulatedLinks links_;
  std::vector<size_t> configured_addresses_;  // by member; empty in a cluster of one machine
  ServerSockets sockets_;
  std::unique_ptr<rpc::Replica> replica_;
  rpc::EventHistory history_{static_cast<size_t>(config_.event_history_bytes)};
  std::unique_ptr<rpc::zk::ZkFrontend> frontend_;
  std::unique_ptr<rpc::zk::ConnectionLoop> loop_;
  std::unique_ptr<NativeServer> native_;  // nullptr in runs without native clients
  std::optional<rpc::Frontends> frontends_;
  std::array<bool, 8> scheduled_ = {};
  int64_t ticks_ = 0;
  consensus::Index applied_;
  std::vector<tree::SessionId> closed_sessions_;  // by the entry being applied
  bool ended_ = false;
};

}  // namespace quorate::simulation

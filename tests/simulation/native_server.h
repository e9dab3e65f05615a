// SPDX-License-Identifier: Apache-2.0

// The native front end of a simulated server: the real NativeFrontend and StreamLoop, whose clients
// reach them over the simulated network. gRPC and its threads are left out: each connection carries
// one session's stream.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "rpc/config/config.h"
#include "rpc/frontend/service.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/testing/manual_transport.h"
#include "tests/simulation/client_network.h"
#include "tests/simulation/clients/native_wire.h"
#include "tests/simulation/process_lifetime.h"

namespace quorate::simulation {

class NativeServer : public ServerPort {
 public:
  // The objects behind pointers and references must outlive this object.
  NativeServer(const rpc::Config& config, rpc::Service* service, const Clock* clock,
               RandomBytes* random, ClientNetwork* network, size_t member,
               std::shared_ptr<ProcessLifetime> lifetime, const rpc::EventHistory* history);
  ~NativeServer() override;

  rpc::Frontend* frontend() { return &frontend_; }
  // Lets clients connect from now on. `after_call` runs after each call of the loop.
  void Start(Scheduler::Task after_call);
  // Closes all connections, because the process has ended. With `silent`, the machine is off, too,
  // and no client is notified.
  void CloseAll(bool silent);
  // Schedules an iteration of the loop, if the loop has something to do.
  void Poke();

  // ServerPort
  bool paused() const override { return lifetime_->paused(); }
  std::optional<uint32_t> Open(const std::shared_ptr<ClientConnection>& connection,
                               const std::string& address, uint16_t port) override;
  void AfterCall() override { after_call_(); }
  void Soon(Scheduler::Task task) override;
  void DeliverSoon(uint32_t tag) override;
  void OnWritable(uint32_t tag) override;

 private:
  struct Channel {
    std::shared_ptr<ClientConnection> connection;
    NativeFrameReader in;
  };

  void Deliver(uint32_t tag);
  void RunIteration();
  // Sends the responses that the loop has produced, and ends the streams that the loop has ended.
  void Flush();
  void ScheduleTimer();

  ClientNetwork& network_;
  Simulation& simulation_;
  Random& random_;
  const size_t member_;
  const std::shared_ptr<ProcessLifetime> lifetime_;
  rpc::native::NativeFrontend frontend_;
  rpc::native::ManualTransport transport_;
  rpc::native::StreamLoop loop_;
  Scheduler::Task after_call_;
  std::map<uint32_t, Channel> channels_;  // by the stream's tag
  bool iteration_scheduled_ = false;
  bool timer_scheduled_ = false;
};

}  // namespace quorate::simulation

// SPDX-License-Identifier: Apache-2.0

#include <list>
#include <utility>

#include "tools/performance/grpc_load/calls.h"
#include "tools/performance/grpc_load/connection.h"
#include "tools/performance/grpc_load/etcd.grpc.pb.h"
#include "tools/performance/grpc_load/etcd_lock.grpc.pb.h"

namespace quorate::grpc_load {
namespace {

// Of a lease; a run is shorter.
constexpr int64_t kLeaseSeconds = 600;

class WatchStream final
    : public grpc::ClientBidiReactor<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse> {
 public:
  WatchStream(etcdserverpb::Watch::Stub* stub, const std::string& key, OpenStreams* streams,
              std::function<void(int)> on_events)
      : streams_(*streams), on_events_(std::move(on_events)) {
    streams_.Begin();
    request_.mutable_create_request()->set_key(key);
    stub->async()->Watch(&context_, this);
    StartWrite(&request_);
    StartRead(&response_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    on_events_(response_.events_size());
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    RequireCancelled(status);
    streams_.End();
  }

 private:
  OpenStreams& streams_;
  const std::function<void(int)> on_events_;
  grpc::ClientContext context_;
  etcdserverpb::WatchRequest request_;
  etcdserverpb::WatchResponse response_;
};

class EtcdConnection final : public Connection {
 public:
  explicit EtcdConnection(const std::string& server)
      : channel_(OpenChannel(server)),
        keys_(etcdserverpb::KV::NewStub(channel_)),
        watch_(etcdserverpb::Watch::NewStub(channel_)),
        leases_(etcdserverpb::Lease::NewStub(channel_)),
        locks_(v3lockpb::Lock::NewStub(channel_)) {}

  grpc::Status Open() override {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    etcdserverpb::LeaseGrantRequest request;
    request.set_ttl(kLeaseSeconds);
    etcdserverpb::LeaseGrantResponse response;
    const grpc::Status status = leases_->LeaseGrant(&context, request, &response);
    lease_ = response.id();
    return status;
  }

  grpc::Status Create(const std::string& key, const std::string& value) override {
    Outcome outcome;
    Put(key, value, [&outcome](const grpc::Status& status) { outcome.Set(status); });
    return outcome.Await();
  }

  void Put(const std::string& key, const std::string& value, Done done) override {
    auto* call = new UnaryCall<etcdserverpb::PutRequest, etcdserverpb::PutResponse>;
    call->request.set_key(key);
    call->request.set_value(value);
    call->done = [done = std::move(done)](const grpc::Status& status, const auto&) {
      done(status);
    };
    keys_->async()->Put(&call->context, &call->request, &call->response, call->Finish());
  }

  void Get(const std::string& key, bool is_linearizable, Done done) override {
    auto* call = new UnaryCall<etcdserverpb::RangeRequest, etcdserverpb::RangeResponse>;
    call->request.set_key(key);
    call->request.set_serializable(!is_linearizable);
    call->done = [done = std::move(done)](const grpc::Status& status, const auto& response) {
      done(!status.ok() || response.kvs_size() == 1
               ? status
               : grpc::Status(grpc::StatusCode::NOT_FOUND, "the key does not exist"));
    };
    keys_->async()->Range(&call->context, &call->request, &call->response, call->Finish());
  }

  void Watch(const std::string& key, std::function<void(int)> on_events) override {
    watches_.emplace_back(watch_.get(), key, &streams_, std::move(on_events));
  }

  void Lock(const std::string& name, Done done) override {
    auto* call = new UnaryCall<v3lockpb::LockRequest, v3lockpb::LockResponse>;
    call->request.set_name(name);
    call->request.set_lease(lease_);
    call->done = [this, done = std::move(done)](const grpc::Status& status, const auto& response) {
      held_ = response.key();
      done(status);
    };
    locks_->async()->Lock(&call->context, &call->request, &call->response, call->Finish());
  }

  void Unlock(Done done) override {
    auto* call = new UnaryCall<v3lockpb::UnlockRequest, v3lockpb::UnlockResponse>;
    call->request.set_key(held_);
    call->done = [done = std::move(done)](const grpc::Status& status, const auto&) {
      done(status);
    };
    locks_->async()->Unlock(&call->context, &call->request, &call->response, call->Finish());
  }

  void Close() override {
    for (WatchStream& watch : watches_) watch.Cancel();
    streams_.AwaitAll();
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<etcdserverpb::KV::Stub> keys_;
  const std::unique_ptr<etcdserverpb::Watch::Stub> watch_;
  const std::unique_ptr<etcdserverpb::Lease::Stub> leases_;
  const std::unique_ptr<v3lockpb::Lock::Stub> locks_;
  OpenStreams streams_;
  std::list<WatchStream> watches_;
  int64_t lease_ = 0;
  std::string held_;  // the key of the lock
};

}  // namespace

std::unique_ptr<Connection> ConnectToEtcd(const std::string& server, int /*number*/) {
  return std::make_unique<EtcdConnection>(server);
}

}  // namespace quorate::grpc_load

// SPDX-License-Identifier: Apache-2.0

#include <list>
#include <utility>

#include "rpc/proto/quorate/v1/lock.grpc.pb.h"
#include "rpc/proto/quorate/v1/session.grpc.pb.h"
#include "rpc/proto/quorate/v1/tree.grpc.pb.h"
#include "rpc/proto/times.h"
#include "tools/performance/grpc_load/calls.h"
#include "tools/performance/grpc_load/connection.h"

namespace quorate::grpc_load {
namespace {

// Of a session; a run is shorter, so that it needs no pings.
constexpr int64_t kSessionMs = 600'000;
constexpr char kPassword[] = "grpc-load-secret";

// The session to which the locks of a connection belong.
class SessionStream final
    : public grpc::ClientBidiReactor<v1::SessionRequest, v1::SessionResponse> {
 public:
  SessionStream(v1::SessionService::Stub* stub, OpenStreams* streams, Outcome* opened)
      : streams_(*streams), opened_(*opened) {
    streams_.Begin();
    request_.mutable_open()->set_password(kPassword);
    *request_.mutable_open()->mutable_timeout() = v1::DurationOfMs(kSessionMs);
    context_.set_wait_for_ready(true);
    stub->async()->Session(&context_, this);
    StartWrite(&request_);
    StartRead(&response_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }
  // REQUIRES: it was opened.
  int64_t id() const { return id_; }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (id_ == 0) {
      id_ = response_.opened().session_id();
      opened_.Set(grpc::Status::OK);
    }
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    if (id_ == 0) {
      opened_.Set(status);
    } else {
      RequireCancelled(status);
    }
    streams_.End();
  }

 private:
  OpenStreams& streams_;
  Outcome& opened_;
  grpc::ClientContext context_;
  v1::SessionRequest request_;
  v1::SessionResponse response_;
  int64_t id_ = 0;
};

class WatchStream final : public grpc::ClientReadReactor<v1::WatchResponse> {
 public:
  WatchStream(v1::TreeService::Stub* stub, const std::string& key, OpenStreams* streams,
              std::function<void(int)> on_events)
      : streams_(*streams), on_events_(std::move(on_events)) {
    streams_.Begin();
    request_.set_path(key);
    request_.set_scope(v1::WATCH_SCOPE_NODE);
    stub->async()->Watch(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (response_.events_size() > 0 || !has_begun_) on_events_(response_.events_size());
    has_begun_ = true;
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
  v1::WatchRequest request_;
  v1::WatchResponse response_;
  bool has_begun_ = false;
};

// A contender for a lock, from the time it is asked for until it is given up.
class LockStream final : public grpc::ClientReadReactor<v1::AcquireResponse> {
 public:
  // Calls `done` when the lock is held, or with the error.
  LockStream(v1::Contender contender, Done done) : done_(std::move(done)) {
    *request_.mutable_contender() = std::move(contender);
  }
  // Asks for the lock. If `done` uses the stream, the caller stores the stream before: another thread may
  // call `done` before Start returns.
  void Start(v1::LockService::Stub* stub) {
    stub->async()->Acquire(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  // Calls `on_end` at the end of the stream, which follows the release of the lock.
  void OnceEnded(Done on_end) {
    const std::lock_guard lock(mutex_);
    on_end_ = std::move(on_end);
  }
  const v1::Contender& contender() const { return request_.contender(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (response_.has_held()) done_(grpc::Status::OK);
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    Done on_end;
    {
      const std::lock_guard lock(mutex_);
      on_end = std::move(on_end_);
    }
    const Done report = on_end ? std::move(on_end) : std::move(done_);
    delete this;
    report(status);
  }

 private:
  Done done_;
  grpc::ClientContext context_;
  v1::AcquireRequest request_;
  v1::AcquireResponse response_;
  std::mutex mutex_;
  Done on_end_;
};

class QuorateConnection final : public Connection {
 public:
  QuorateConnection(const std::string& server, int number)
      : number_(number),
        channel_(OpenChannel(server)),
        tree_(v1::TreeService::NewStub(channel_)),
        sessions_(v1::SessionService::NewStub(channel_)),
        locks_(v1::LockService::NewStub(channel_)) {}

  grpc::Status Open() override {
    session_ = std::make_unique<SessionStream>(sessions_.get(), &streams_, &opened_);
    return opened_.Await();
  }

  grpc::Status Create(const std::string& key, const std::string& value) override {
    grpc::ClientContext context;
    v1::CreateIfNotExistsRequest request;
    request.mutable_create()->set_path(key);
    request.mutable_create()->set_data(value);
    v1::CreateIfNotExistsResponse response;
    return tree_->CreateIfNotExists(&context, request, &response);
  }

  void Put(const std::string& key, const std::string& value, Done done) override {
    auto* call = new UnaryCall<v1::SetRequest, v1::SetResponse>;
    call->request.mutable_set()->set_path(key);
    call->request.mutable_set()->set_data(value);
    call->done = [done = std::move(done)](const grpc::Status& status, const auto&) {
      done(status);
    };
    tree_->async()->Set(&call->context, &call->request, &call->response, call->Finish());
  }

  void Get(const std::string& key, bool is_linearizable, Done done) override {
    auto* call = new UnaryCall<v1::GetRequest, v1::GetResponse>;
    call->request.set_path(key);
    call->request.mutable_options()->set_linearizable(is_linearizable);
    call->done = [done = std::move(done)](const grpc::Status& status, const auto&) {
      done(status);
    };
    tree_->async()->Get(&call->context, &call->request, &call->response, call->Finish());
  }

  void Watch(const std::string& key, std::function<void(int)> on_events) override {
    watches_.emplace_back(tree_.get(), key, &streams_, std::move(on_events));
  }

  void Lock(const std::string& name, Done done) override {
    v1::Contender contender;
    contender.set_path(name);
    contender.set_id("load-" + std::to_string(number_));
    contender.set_session_id(session_->id());
    contender.set_session_password(kPassword);
    held_ = new LockStream(std::move(contender), std::move(done));
    held_->Start(locks_.get());
  }

  void Unlock(Done done) override {
    auto* call = new UnaryCall<v1::ReleaseRequest, v1::ReleaseResponse>;
    *call->request.mutable_contender() = held_->contender();
    // The stream ends when the lock is given up.
    held_->OnceEnded(std::move(done));
    call->done = [](const grpc::Status& status, const auto&) {
      if (!status.ok()) std::abort();
    };
    locks_->async()->Release(&call->context, &call->request, &call->response, call->Finish());
  }

  void Close() override {
    for (WatchStream& watch : watches_) watch.Cancel();
    if (session_ != nullptr) session_->Cancel();
    streams_.AwaitAll();
  }

 private:
  const int number_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::TreeService::Stub> tree_;
  const std::unique_ptr<v1::SessionService::Stub> sessions_;
  const std::unique_ptr<v1::LockService::Stub> locks_;
  OpenStreams streams_;
  Outcome opened_;
  std::unique_ptr<SessionStream> session_;
  std::list<WatchStream> watches_;
  LockStream* held_ = nullptr;  // deletes itself
};

}  // namespace

std::unique_ptr<Connection> ConnectToQuorate(const std::string& server, int number) {
  return std::make_unique<QuorateConnection>(server, number);
}

}  // namespace quorate::grpc_load

// SPDX-License-Identifier: Apache-2.0

// Clients of the gRPC front end: with sessions, and with calls without a session.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"
#include "rpc/proto/quorate/v1/session.grpc.pb.h"
#include "rpc/proto/quorate/v1/tree.grpc.pb.h"
#include "rpc/proto/times.h"
#include "tests/threads/clients.h"

namespace quorate::threads {
namespace {

constexpr auto kDeadline = std::chrono::seconds(10);
constexpr uint64_t kWatchId = 1;

class Channels {
 public:
  Channels(Load* load, uint64_t seed) : load_(*load), random_(seed) {}

  int Draw(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  uint64_t DrawAny() { return random_(); }
  // Opens a channel to one of the members; null if the member is stopped.
  std::shared_ptr<grpc::Channel> Open() {
    const uint16_t port = load_.cluster->grpc_port(1 + static_cast<uint32_t>(Draw(kMembers)));
    if (port == 0) return nullptr;
    load_.connections.fetch_add(1);
    return grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                               grpc::InsecureChannelCredentials());
  }

 private:
  Load& load_;
  std::mt19937_64 random_;
};

// A client with one session at a time, and a watch on everything.
class SessionClient {
 public:
  SessionClient(Load* load, uint64_t seed) : load_(*load), channels_(load, seed) {}

  void Run() {
    while (!load_.ends) {
      const std::shared_ptr<grpc::Channel> channel = channels_.Open();
      if (channel != nullptr) Serve(channel);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

 private:
  void Serve(const std::shared_ptr<grpc::Channel>& channel) {
    const auto stub = v1::SessionService::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    const auto stream = stub->Session(&context);
    v1::SessionRequest message;
    message.mutable_open()->set_session_id(session_id_);
    message.mutable_open()->set_password("0123456789abcdef");
    *message.mutable_open()->mutable_timeout() = v1::DurationOfMs(10'000);
    message.mutable_open()->set_last_zxid(zxid_);
    v1::Request* watch = message.add_requests();
    watch->set_id(++id_);
    watch->mutable_watch()->set_watch_id(kWatchId);
    watch->mutable_watch()->set_path("/");
    watch->mutable_watch()->set_scope(v1::WATCH_SCOPE_SUBTREE);
    watch->mutable_watch()->set_after_zxid(events_zxid_);
    const uint64_t watch_id = id_;
    is_watching_ = false;
    bool goes_on = stream->Write(message);
    for (int messages = 0; goes_on && !load_.ends && messages < 100; ++messages) {
      message.Clear();
      for (int count = channels_.Draw(6); count > 0; --count) AddRequest(&message);
      goes_on = stream->Write(message) && TakeAnswers(stream.get(), message, watch_id);
    }
    context.TryCancel();
    const grpc::Status status = stream->Finish();
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {  // the session has expired
      session_id_ = 0;
      sequence_ = 0;
    }
  }

  void AddRequest(v1::SessionRequest* message) {
    v1::Request* request = message->add_requests();
    request->set_id(++id_);
    const std::string path = NodePath(channels_.Draw(kNodes));
    if (channels_.Draw(3) == 0) {
      request->mutable_write()->set_sequence(++sequence_);
      v1::Operation* operation = request->mutable_write()->add_operations();
      operation->mutable_set()->set_path(path);
      operation->mutable_set()->set_data(std::to_string(channels_.DrawAny()));
      message->set_acknowledged_sequence(sequence_ - 1);
    } else {
      request->mutable_get()->set_path(path);
      request->mutable_get()->set_linearizable(channels_.Draw(4) == 0);
      asked_[request->id()] = path;
    }
  }

  // Reads until the last request in `sent` is answered.
  template <class Stream>
  bool TakeAnswers(Stream* stream, const v1::SessionRequest& sent, uint64_t watch_id) {
    const uint64_t last =
        sent.requests().empty() ? 0 : sent.requests(sent.requests_size() - 1).id();
    v1::SessionResponse received;
    for (bool done = last == 0; !done;) {
      if (!stream->Read(&received)) return false;
      if (received.has_opened()) {
        session_id_ = received.opened().session_id();
        sequence_ = received.opened().last_sequence();
      }
      for (const v1::SessionItem& item : received.items()) {
        if (item.has_event()) {
          TakeEvent(item.event().event());
        } else if (item.response().id() == watch_id) {
          if (item.response().error() == v1::ERROR_CODE_EVENTS_LOST) {
            events_zxid_ = 0;
            events_.clear();
            return false;
          }
          is_watching_ = item.response().error() == v1::ERROR_CODE_UNSPECIFIED;
          if (events_zxid_ == 0) watched_from_ = item.response().zxid();
        } else {
          TakeAnswer(item.response());
          done |= item.response().id() == last;
        }
      }
      if (received.zxid() != 0 && is_watching_) events_zxid_ = received.zxid();
      zxid_ = std::max(zxid_, received.zxid());
    }
    return true;
  }

  void TakeEvent(const v1::Event& event) {
    load_.events.fetch_add(1);
    int64_t& last = events_[event.path()];
    if (event.zxid() < last) load_.Wrong("events of " + event.path() + " are not in their order");
    last = event.zxid();
    zxid_ = std::max(zxid_, event.zxid());
  }

  void TakeAnswer(const v1::Response& response) {
    zxid_ = std::max(zxid_, response.zxid());
    (response.has_get() ? load_.reads : load_.writes).fetch_add(1);
    const auto asked = asked_.find(response.id());
    if (asked == asked_.end()) return;
    const std::string path = asked->second;
    asked_.erase(asked);
    if (!response.has_get() || !is_watching_) return;
    const int64_t mzxid = response.get().stat().modified_zxid();
    const int64_t heard = std::max(events_[path], watched_from_);
    if (mzxid > heard) {
      load_.Wrong("a session reads " + path + " of zxid " + std::to_string(mzxid) +
                  ", and was told of changes up to " + std::to_string(heard));
    }
  }

  Load& load_;
  Channels channels_;
  int64_t session_id_ = 0;
  uint64_t sequence_ = 0;
  uint64_t id_ = 0;
  int64_t zxid_ = 0;         // the newest zxid that was seen
  int64_t events_zxid_ = 0;  // all events up to this zxid were received
  int64_t watched_from_ = 0;
  bool is_watching_ = false;
  std::map<std::string, int64_t> events_;
  std::map<uint64_t, std::string> asked_;
};

// A client that makes independent calls.
class CallClient {
 public:
  CallClient(Load* load, uint64_t seed) : load_(*load), channels_(load, seed) {}

  void Run() {
    while (!load_.ends) {
      const std::shared_ptr<grpc::Channel> channel = channels_.Open();
      if (channel == nullptr) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      const auto tree = v1::TreeService::NewStub(channel);
      const auto cluster = v1::ClusterService::NewStub(channel);
      for (int i = 0; i < 40 && !load_.ends; ++i) {
        if (!DoOne(tree.get(), cluster.get())) break;
      }
    }
  }

 private:
  bool DoOne(v1::TreeService::Stub* tree, v1::ClusterService::Stub* cluster) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    const std::string path = NodePath(channels_.Draw(kNodes));
    switch (channels_.Draw(8)) {
      case 0: {
        v1::SetRequest request;
        request.mutable_set()->set_path(path);
        request.mutable_set()->set_data(std::to_string(channels_.DrawAny()));
        v1::SetResponse response;
        load_.writes.fetch_add(1);
        return tree->Set(&context, request, &response).ok();
      }
      case 1:
        return Watch(tree, &context);
      case 2: {
        v1::StatusResponse response;
        return cluster->Status(&context, {}, &response).ok();
      }
      case 3: {
        v1::BackupRequest request;
        v1::BackupResponse response;
        const auto reader = cluster->Backup(&context, request);
        while (reader->Read(&response)) {
        }
        return reader->Finish().ok();
      }
      case 4: {
        v1::ListRequest request;
        request.set_path(path);
        v1::ListResponse response;
        return tree->List(&context, request, &response).ok();
      }
      default: {
        v1::GetRequest request;
        request.set_path(path);
        request.mutable_options()->set_linearizable(channels_.Draw(2) == 0);
        request.mutable_options()->set_min_zxid(zxid_);
        v1::GetResponse response;
        if (!tree->Get(&context, request, &response).ok()) return false;
        load_.reads.fetch_add(1);
        if (response.zxid() < zxid_) load_.Wrong("a call is answered from before min_zxid");
        zxid_ = response.zxid();
        return true;
      }
    }
  }

  bool Watch(v1::TreeService::Stub* tree, grpc::ClientContext* context) {
    v1::WatchRequest request;
    request.set_path("/");
    request.set_scope(v1::WATCH_SCOPE_SUBTREE);
    const auto reader = tree->Watch(context, request);
    v1::WatchResponse response;
    int64_t last = 0;
    for (int i = 0; i < 5 && reader->Read(&response); ++i) {
      for (const v1::Event& event : response.events()) {
        load_.events.fetch_add(1);
        if (event.zxid() < last) load_.Wrong("events of a watch are not in their order");
        last = event.zxid();
      }
    }
    context->TryCancel();
    return reader->Finish().error_code() == grpc::StatusCode::CANCELLED;
  }

  Load& load_;
  Channels channels_;
  int64_t zxid_ = 0;
};

}  // namespace

void RunSessionClient(Load* load, uint64_t seed) { SessionClient(load, seed).Run(); }
void RunCallClient(Load* load, uint64_t seed) { CallClient(load, seed).Run(); }

}  // namespace quorate::threads

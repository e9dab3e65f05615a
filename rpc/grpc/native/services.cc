// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/services.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "rpc/grpc/caller.h"
#include "rpc/grpc/native/message_parts.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/quorate/v1/lock.grpc.pb.h"
#include "rpc/proto/quorate/v1/session.grpc.pb.h"
#include "rpc/proto/quorate/v1/tree.grpc.pb.h"

namespace quorate::rpc::native {
namespace {

grpc::ByteBuffer ToByteBuffer(std::string bytes) {
  auto* owned = new std::string(std::move(bytes));
  grpc::Slice slice(
      owned->data(), owned->size(), [](void* p) { delete static_cast<std::string*>(p); }, owned);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Returns the session of the contender that a request of `method` names.
std::optional<int64_t> SessionOf(Method method, const std::string& request) {
  const bool has_contender =
      method == Method::kAcquire || method == Method::kCampaign || IsOfHeldContender(method);
  return has_contender ? ContenderSessionOf(request) : std::nullopt;
}

// What the services share.
struct Front {
  StreamThreads* threads;
  Administrators* administrators;
  bool has_certificates;

  CallerProof ProofOf(const grpc::CallbackServerContext& context) const {
    return rpc::ProofOf(context, has_certificates, administrators);
  }
};

// Records that a call is admitted, when the stream has a message for it: a refusal is none.
class Admission {
 public:
  explicit Admission(const Front& front) : administrators_(front.administrators) {}

  // Returns who makes the call. Called once, before there is an answer.
  CallerProof Prove(const Front& front, const grpc::CallbackServerContext& context) {
    CallerProof proof = front.ProofOf(context);
    peer_ = std::move(proof.peer);
    return proof;
  }
  void OnAnswer() {
    if (!std::exchange(is_recorded_, true)) administrators_->OnAdmitted(peer_);
  }

 private:
  Administrators* const administrators_;
  std::string peer_;
  bool is_recorded_ = false;
};

// A reactor connects a call of gRPC with a stream of a loop. gRPC owns each reactor until OnDone. A
// cancellation is reported to the stream's loop, which ends the stream with Finish, like every
// stream.

class SessionReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                             public Channel {
 public:
  SessionReactor(const Front& front, grpc::CallbackServerContext* context)
      : context_(context), admission_(front), handle_(front.threads->NewHandle()) {
    handle_.Open(Method::kSession, admission_.Prove(front, *context), this);
  }

  void Read() override { StartRead(&incoming_); }
  void Write(std::string message) override {
    admission_.OnAnswer();
    outgoing_ = ToByteBuffer(std::move(message));
    StartWrite(&outgoing_);
  }
  void Finish(const absl::Status& outcome) override {
    ServerBidiReactor::Finish(v1::ToGrpc(outcome));
  }
  void Cancel() override { context_->TryCancel(); }

  void OnReadDone(bool ok) override {
    if (ok) {
      handle_.OnMessage(ToString(incoming_));
    } else {
      handle_.OnHalfClosed();
    }
  }
  void OnWriteDone(bool) override { handle_.OnWritten(); }
  void OnCancel() override { handle_.OnCancelled(); }
  void OnDone() override { delete this; }

 private:
  grpc::CallbackServerContext* const context_;
  Admission admission_;
  const StreamHandle handle_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
};

// The reactor of a method with one request and a stream of responses.
class ResponsesReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public Channel {
 public:
  ResponsesReactor(const Front& front, Method method, grpc::CallbackServerContext* context,
                   const grpc::ByteBuffer* request)
      : context_(context),
        admission_(front),
        request_(ToString(*request)),
        handle_(front.threads->NewHandle(SessionOf(method, request_))) {
    handle_.Open(method, admission_.Prove(front, *context), this);
  }

  void Read() override {
    if (std::exchange(has_read_, true)) {
      handle_.OnHalfClosed();
    } else {
      handle_.OnMessage(std::move(request_));
    }
  }
  void Write(std::string message) override {
    admission_.OnAnswer();
    outgoing_ = ToByteBuffer(std::move(message));
    StartWrite(&outgoing_);
  }
  void Finish(const absl::Status& outcome) override {
    ServerWriteReactor::Finish(v1::ToGrpc(outcome));
  }
  void Cancel() override { context_->TryCancel(); }

  void OnWriteDone(bool) override { handle_.OnWritten(); }
  void OnCancel() override { handle_.OnCancelled(); }
  void OnDone() override { delete this; }

 private:
  grpc::CallbackServerContext* const context_;
  Admission admission_;
  std::string request_;
  const StreamHandle handle_;
  bool has_read_ = false;
  grpc::ByteBuffer outgoing_;
};

class CallReactor final : public grpc::ServerUnaryReactor, public Channel {
 public:
  CallReactor(const Front& front, Method method, grpc::CallbackServerContext* context,
              const grpc::ByteBuffer* request, grpc::ByteBuffer* response)
      : context_(context),
        admission_(front),
        request_(ToString(*request)),
        handle_(front.threads->NewHandle(SessionOf(method, request_))),
        response_(response) {
    handle_.Open(method, admission_.Prove(front, *context), this);
  }

  void Read() override {
    if (!std::exchange(has_read_, true)) handle_.OnMessage(std::move(request_));
  }
  void Write(std::string message) override {
    admission_.OnAnswer();
    *response_ = ToByteBuffer(std::move(message));
  }
  void Finish(const absl::Status& outcome) override {
    ServerUnaryReactor::Finish(v1::ToGrpc(outcome));
  }
  bool sends_with_finish() const override { return true; }
  void Cancel() override { context_->TryCancel(); }

  void OnCancel() override { handle_.OnCancelled(); }
  void OnDone() override {
    handle_.OnWritten();
    delete this;
  }

 private:
  grpc::CallbackServerContext* const context_;
  Admission admission_;
  std::string request_;
  const StreamHandle handle_;
  bool has_read_ = false;
  grpc::ByteBuffer* const response_;
};

// The generated service classes, with every method in a form that takes and returns bytes.
using RawSessions = v1::SessionService::WithRawCallbackMethod_Session<v1::SessionService::Service>;
using RawTree = v1::TreeService::WithRawCallbackMethod_Get<
    v1::TreeService::WithRawCallbackMethod_Exists<v1::TreeService::WithRawCallbackMethod_List<
        v1::TreeService::WithRawCallbackMethod_ListRecursive<
            v1::TreeService::WithRawCallbackMethod_Create<
                v1::TreeService::WithRawCallbackMethod_Set<
                    v1::TreeService::WithRawCallbackMethod_Delete<
                        v1::TreeService::WithRawCallbackMethod_CreateIfNotExists<
                            v1::TreeService::WithRawCallbackMethod_RemoveRecursive<
                                v1::TreeService::WithRawCallbackMethod_TryRemove<
                                    v1::TreeService::WithRawCallbackMethod_Txn<
                                        v1::TreeService::WithRawCallbackMethod_Watch<
                                            v1::TreeService::WithRawCallbackMethod_Scan<
                                                v1::TreeService::Service>>>>>>>>>>>>>;
using RawLock = v1::LockService::WithRawCallbackMethod_Acquire<
    v1::LockService::WithRawCallbackMethod_Release<v1::LockService::Service>>;
using RawElection = v1::ElectionService::WithRawCallbackMethod_Campaign<
    v1::ElectionService::WithRawCallbackMethod_Proclaim<
        v1::ElectionService::WithRawCallbackMethod_Resign<
            v1::ElectionService::WithRawCallbackMethod_Observe<v1::ElectionService::Service>>>>;

}  // namespace

class NativeServices::Sessions final : public RawSessions {
 public:
  explicit Sessions(const Front& front) : front_(front) {}

  using RawSessions::Session;  // the overloads that gRPC does not call
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override {
    return new SessionReactor(front_, context);
  }

 private:
  const Front front_;
};

class NativeServices::Tree final : public RawTree {
 public:
  explicit Tree(const Front& front) : front_(front) {}

  using RawTree::Create;  // the overloads that gRPC does not call
  using RawTree::CreateIfNotExists;
  using RawTree::Delete;
  using RawTree::Exists;
  using RawTree::Get;
  using RawTree::List;
  using RawTree::ListRecursive;
  using RawTree::RemoveRecursive;
  using RawTree::Scan;
  using RawTree::Set;
  using RawTree::TryRemove;
  using RawTree::Txn;
  using RawTree::Watch;

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* Get(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kGet, context, request, response);
  }
  Reactor* Exists(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kExists, context, request, response);
  }
  Reactor* List(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kList, context, request, response);
  }
  Reactor* ListRecursive(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kListRecursive, context, request, response);
  }
  Reactor* Create(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kCreate, context, request, response);
  }
  Reactor* Set(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kSet, context, request, response);
  }
  Reactor* Delete(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kDelete, context, request, response);
  }
  Reactor* CreateIfNotExists(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kCreateIfNotExists, context, request, response);
  }
  Reactor* RemoveRecursive(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kRemoveRecursive, context, request, response);
  }
  Reactor* TryRemove(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kTryRemove, context, request, response);
  }
  Reactor* Txn(Context* context, const Bytes* request, Bytes* response) override {
    return new CallReactor(front_, Method::kTxn, context, request, response);
  }
  grpc::ServerWriteReactor<Bytes>* Watch(Context* context, const Bytes* request) override {
    return new ResponsesReactor(front_, Method::kWatch, context, request);
  }
  grpc::ServerWriteReactor<Bytes>* Scan(Context* context, const Bytes* request) override {
    return new ResponsesReactor(front_, Method::kScan, context, request);
  }

 private:
  const Front front_;
};

class NativeServices::Lock final : public RawLock {
 public:
  explicit Lock(const Front& front) : front_(front) {}

  using RawLock::Acquire;  // the overloads that gRPC does not call
  using RawLock::Release;

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  grpc::ServerWriteReactor<Bytes>* Acquire(Context* context, const Bytes* request) override {
    return new ResponsesReactor(front_, Method::kAcquire, context, request);
  }
  grpc::ServerUnaryReactor* Release(Context* context, const Bytes* request,
                                    Bytes* response) override {
    return new CallReactor(front_, Method::kRelease, context, request, response);
  }

 private:
  const Front front_;
};

class NativeServices::Election final : public RawElection {
 public:
  explicit Election(const Front& front) : front_(front) {}

  using RawElection::Campaign;  // the overloads that gRPC does not call
  using RawElection::Observe;
  using RawElection::Proclaim;
  using RawElection::Resign;

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Responses = grpc::ServerWriteReactor<Bytes>;

  Responses* Campaign(Context* context, const Bytes* request) override {
    return new ResponsesReactor(front_, Method::kCampaign, context, request);
  }
  grpc::ServerUnaryReactor* Proclaim(Context* context, const Bytes* request,
                                     Bytes* response) override {
    return new CallReactor(front_, Method::kProclaim, context, request, response);
  }
  grpc::ServerUnaryReactor* Resign(Context* context, const Bytes* request,
                                   Bytes* response) override {
    return new CallReactor(front_, Method::kResign, context, request, response);
  }
  Responses* Observe(Context* context, const Bytes* request) override {
    return new ResponsesReactor(front_, Method::kObserve, context, request);
  }

 private:
  const Front front_;
};

NativeServices::NativeServices(StreamThreads* threads, Administrators* administrators,
                               bool has_certificates)
    : sessions_(std::make_unique<Sessions>(Front{threads, administrators, has_certificates})),
      tree_(std::make_unique<Tree>(Front{threads, administrators, has_certificates})),
      lock_(std::make_unique<Lock>(Front{threads, administrators, has_certificates})),
      election_(std::make_unique<Election>(Front{threads, administrators, has_certificates})) {}

NativeServices::~NativeServices() = default;

std::vector<std::pair<std::string, grpc::Service*>> NativeServices::services() {
  return {{v1::SessionService::service_full_name(), sessions_.get()},
          {v1::TreeService::service_full_name(), tree_.get()},
          {v1::LockService::service_full_name(), lock_.get()},
          {v1::ElectionService::service_full_name(), election_.get()}};
}

}  // namespace quorate::rpc::native

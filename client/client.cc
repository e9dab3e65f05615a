// SPDX-License-Identifier: Apache-2.0

#include "client/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/access.h"
#include "client/connection_problem.h"
#include "client/engine.h"
#include "client/error.h"
#include "client/notifier.h"
#include "client/paths.h"
#include "client/session_loss.h"
#include "client/timer.h"
#include "client/translation.h"
#include "rpc/proto/credentials.h"
#include "rpc/proto/quorate/v1/session.pb.h"

namespace quorate {
namespace {

using internal::CallState;
using internal::Engine;
using internal::FromProto;

using RequestPtr = std::unique_ptr<v1::Request>;

// The longest session timeout that a client may request.
constexpr int kSessionTimeoutMaxMs = 24 * 3600 * 1000;
constexpr int kDestructorCloseMs = 2000;
// How long Connect looks for the reason why TLS with a member does not work.
constexpr std::chrono::milliseconds kProblemPatience{1000};

template <class T>
std::shared_ptr<CallState<T>> NewState(const std::shared_ptr<Engine>& engine) {
  auto state = std::make_shared<CallState<T>>();
  state->thread = engine;
  state->number = engine->NewCall();
  return state;
}

// Returns `status` with what is wrong with TLS, if that can be found out.
absl::Status WithProblem(const absl::Status& status, const std::vector<std::string>& members,
                         const TlsOptions& tls) {
  for (const std::string& member : members) {
    const std::string problem = internal::ConnectionProblem(member, tls, kProblemPatience);
    if (!problem.empty()) {
      return absl::Status(status.code(), absl::StrCat(problem, "; ", status.message()));
    }
  }
  return status;
}

// Returns a call that fails with `status` before anything is sent.
template <class T>
Call<T> Failed(const std::shared_ptr<Engine>& engine, absl::Status status) {
  auto state = NewState<T>(engine);
  state->SetOutcome(std::move(status));
  state->DeliverWithoutCallback();
  return Call<T>(state);
}

// Sets the outcome of a call.
template <class T>
Engine::Outcome Finish(const std::shared_ptr<CallState<T>>& state, absl::StatusOr<T> outcome) {
  absl::Status status = outcome.status();
  state->SetOutcome(std::move(outcome));
  return {state, std::move(status)};
}

// Sends `request`; `parse` makes the result from its answer, on the engine's thread.
template <class T, class Parse>
Call<T> Send(const std::shared_ptr<Engine>& engine, RequestPtr request, int deadline_ms,
             Parse parse) {
  auto state = NewState<T>(engine);
  engine->Submit(state->number, std::move(request), deadline_ms,
                 [state, parse = std::move(parse)](absl::StatusOr<v1::Response> response) mutable {
                   if (!response.ok()) return Finish<T>(state, response.status());
                   return Finish<T>(state, parse(&*response));
                 });
  return Call<T>(state);
}

absl::StatusOr<RequestPtr> WriteOf(const Transaction::Operation& operation,
                                   std::string_view chroot) {
  auto request = std::make_unique<v1::Request>();
  v1::Operation* to = request->mutable_write()->add_operations();
  if (absl::Status s = internal::ToProto(operation, chroot, to); !s.ok()) return s;
  return request;
}

// Fills the fields of a read; `message` is the part of the request for its kind of read.
template <class Options, class Message>
absl::Status FillRead(std::string_view chroot, std::string_view path, const Options& options,
                      Message* message) {
  if (absl::Status s = internal::CheckPath(path); !s.ok()) return s;
  message->set_path(internal::AddChroot(chroot, path));
  message->set_linearizable(options.linearizable);
  return absl::OkStatus();
}

// Returns the result of a list with `details`. UNIMPLEMENTED: the server has not sent them.
absl::StatusOr<ListResult> ListResultOf(const ListDetails& details, v1::Response* response) {
  v1::ListResult* list = response->mutable_list();
  const int count = list->children_size();
  if (list->child_stats_size() != (details.with_stats ? count : 0) ||
      list->child_data_size() != (details.with_data ? count : 0)) {
    return internal::MakeError(v1::ERROR_CODE_UNIMPLEMENTED, "List with details");
  }
  ListResult result;
  result.stat = FromProto(list->stat());
  // Only servers of a version that ignores `details` do not set watch_after_zxid.
  result.zxid = list->watch_after_zxid() == 0 ? response->zxid() : list->watch_after_zxid();
  const auto size = static_cast<size_t>(count);
  result.children.reserve(size);
  for (std::string& child : *list->mutable_children()) result.children.push_back(std::move(child));
  if (details.with_stats) result.child_stats.reserve(size);
  for (const v1::Stat& stat : list->child_stats()) result.child_stats.push_back(FromProto(stat));
  if (details.with_data) result.child_data.reserve(size);
  for (std::string& data : *list->mutable_child_data()) {
    result.child_data.push_back(std::move(data));
  }
  return result;
}

// Sets `*to` to the result of a create.
void SetResult(const v1::Response& response, std::string_view chroot, CreateResult* to) {
  const v1::OperationResult& result = response.write().results(0);
  *to = {internal::StripChroot(chroot, result.path()), FromProto(result.stat()), response.zxid()};
}

void SetResult(const v1::Response& response, std::string_view chroot, CreateIfNotExistsResult* to) {
  const v1::OperationResult& result = response.write().results(0);
  *to = {internal::StripChroot(chroot, result.path()), std::nullopt, response.zxid()};
  if (result.has_stat()) to->stat = FromProto(result.stat());
}

const v1::Operation::Create& CreateOf(const v1::Operation& operation) {
  return operation.has_create() ? operation.create() : operation.create_if_not_exists();
}

// A create that creates missing ancestors.
template <class Result>
struct DeepCreate {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<void> chain;
  std::shared_ptr<CallState<Result>> state;
  RequestPtr request;  // sent again after the ancestors were created
  std::string chroot;
  int deadline_ms;
  Engine::Clock::time_point begun = Engine::Clock::now();

  Engine::Outcome End(const absl::StatusOr<v1::Response>& response) {
    chain.reset();
    if (!response.ok()) return Finish<Result>(state, response.status());
    Result result;
    SetResult(*response, chroot, &result);
    return Finish<Result>(state, std::move(result));
  }
  // Creates the ancestors, then sends the request again. Called on the engine's thread.
  void CreateParents(std::shared_ptr<DeepCreate> self) {
    const v1::Operation::Create& create = CreateOf(request->write().operations(0));
    for (size_t slash = create.path().find('/', 1); slash != std::string::npos;
         slash = create.path().find('/', slash + 1)) {
      auto parent = std::make_unique<v1::Request>();
      v1::Operation::Create* made = parent->mutable_write()->add_operations()->mutable_create();
      made->set_path(create.path().substr(0, slash));
      *made->mutable_acl() = create.acl();
      // If an ancestor is still missing afterwards, the last create fails with NO_NODE.
      engine->SubmitNext(engine->NewCall(), std::move(parent), 0, nullptr);
    }
    const auto passed =
        std::chrono::duration_cast<std::chrono::milliseconds>(Engine::Clock::now() - begun);
    const int left_ms = deadline_ms <= 0
                            ? deadline_ms
                            : std::max(deadline_ms - static_cast<int>(passed.count()), 1);
    engine->SubmitNext(
        state->number, std::move(request), left_ms,
        [self](const absl::StatusOr<v1::Response>& response) { return self->End(response); });
  }
};

// Sends a create, and creates missing ancestors first if `creates_parents`.
template <class Result>
Call<Result> SendCreate(const std::shared_ptr<Engine>& engine, RequestPtr request,
                        const std::string& chroot, int deadline_ms, bool creates_parents) {
  if (!creates_parents) {
    return Send<Result>(engine, std::move(request), deadline_ms, [chroot](v1::Response* response) {
      Result result;
      SetResult(*response, chroot, &result);
      return result;
    });
  }
  auto deep = std::make_shared<DeepCreate<Result>>();
  deep->engine = engine;
  deep->chain = engine->NewChain();
  deep->state = NewState<Result>(engine);
  deep->request = std::make_unique<v1::Request>(*request);
  deep->chroot = chroot;
  deep->deadline_ms = deadline_ms;
  engine->Submit(deep->state->number, std::move(request), deadline_ms,
                 [deep](const absl::StatusOr<v1::Response>& response) -> Engine::Outcome {
                   if (ErrorOf(response.status()) != ErrorCode::kNoNode) return deep->End(response);
                   deep->CreateParents(deep);
                   return {};
                 });
  return Call<Result>(deep->state);
}

// Returns the function that a WatchHandle calls at its end; `remove` removes the watch or listener
// from the engine.
template <class Notification, class Remove>
std::function<void()> EndOf(const std::shared_ptr<Engine>& engine,
                            std::shared_ptr<internal::Notifier<Notification>> notifier,
                            Remove remove) {
  return [engine = std::weak_ptr<Engine>(engine), notifier, remove] {
    const std::shared_ptr<Engine> live = engine.lock();
    if (live == nullptr) return;
    notifier->End(live->IsInCallback());
    remove(live.get());
  };
}

}  // namespace

void internal::RunAfter(Client* client, std::chrono::milliseconds delay,
                        absl::AnyInvocable<void()> callback) {
  client->engine_->PostAfter(delay, std::move(callback));
}

std::pair<int64_t, std::string> internal::SessionKeyOf(Client* client) {
  return client->engine_->session_key();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(ClientOptions options) {
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  absl::StatusOr<internal::Servers> servers = internal::ParseServers(options.servers);
  if (!servers.ok()) return servers.status();
  if (options.session_timeout_ms < 1 || options.session_timeout_ms > kSessionTimeoutMaxMs) {
    return absl::InvalidArgumentError("session_timeout_ms must be between 1 ms and one day");
  }
  if (options.connect_timeout_ms < 0 || options.default_deadline_ms < 0) {
    return absl::InvalidArgumentError("a timeout or deadline must not be negative (0: none)");
  }
  if (options.nearest_patience_ms < 1) {
    return absl::InvalidArgumentError("nearest_patience_ms must be positive");
  }
  if (options.retry.pause_min_ms < 1 || options.retry.pause_max_ms < options.retry.pause_min_ms ||
      options.retry.give_up_after_ms < 0) {
    return absl::InvalidArgumentError(
        "retry: pause_min_ms must be positive and at most pause_max_ms, and give_up_after_ms must "
        "not "
        "be negative (0: without a limit)");
  }
  const std::vector<Credential> credentials = std::move(options.credentials);
  if (absl::Status s = internal::Present(credentials, nullptr); !s.ok()) return s;
  const int timeout_ms =
      options.connect_timeout_ms > 0 ? options.connect_timeout_ms : options.session_timeout_ms;
  const int default_deadline_ms = options.default_deadline_ms;
  absl::StatusOr<internal::Access> access = internal::Access::Load(
      options.tls, {.token = options.token, .file = options.token_file}, servers->members);
  if (!access.ok()) return access.status();
  const TlsOptions tls = options.tls;
  auto engine = std::make_shared<Engine>(servers->members, std::move(options), *std::move(access));
  internal::Present(credentials, &engine->credentials()).IgnoreError();  // was checked above
  engine->Start();
  if (absl::Status s = engine->WaitUntilConnected(timeout_ms); !s.ok()) {
    engine->Stop();
    return tls.enabled ? WithProblem(s, servers->members, tls) : s;
  }
  return std::unique_ptr<Client>(
      new Client(std::move(engine), std::move(servers->chroot), default_deadline_ms));
}

Client::Client(std::shared_ptr<internal::Engine> engine, std::string chroot,
               int default_deadline_ms)
    : engine_(std::move(engine)),
      chroot_(std::move(chroot)),
      default_deadline_ms_(default_deadline_ms) {}

Client::~Client() {
  // If no server answers, the session ends by its timeout.
  Close({.deadline_ms = kDestructorCloseMs}).IgnoreError();
  engine_->Stop();
}

void Client::ChangeMember() { engine_->ChangeMember(); }

int64_t Client::session_id() const { return engine_->session_id(); }
int Client::session_timeout_ms() const { return engine_->session_timeout_ms(); }
int64_t Client::ms_since_served() const { return engine_->SinceServed().count(); }
Client::State Client::state() const { return engine_->state(); }

int Client::DeadlineOf(int deadline_ms) const {
  return deadline_ms == 0 ? default_deadline_ms_ : deadline_ms;
}

// --- Writes --------------------------------------------------------------------------------------

Call<CreateResult> Client::AsyncCreate(std::string_view path, std::string data,
                                       CreateOptions options) {
  Transaction::CreateOperation operation{std::string(path), std::move(data), options.mode,
                                         std::move(options.acl), options.ttl_ms};
  absl::StatusOr<RequestPtr> request = WriteOf(operation, chroot_);
  if (!request.ok()) return Failed<CreateResult>(engine_, request.status());
  return SendCreate<CreateResult>(engine_, *std::move(request), chroot_,
                                  DeadlineOf(options.deadline_ms), options.create_parents);
}

Call<CreateIfNotExistsResult> Client::AsyncCreateIfNotExists(std::string_view path,
                                                             std::string data,
                                                             CreateOptions options) {
  Transaction::CreateIfNotExistsOperation operation{
      {std::string(path), std::move(data), options.mode, std::move(options.acl), options.ttl_ms}};
  absl::StatusOr<RequestPtr> request = WriteOf(operation, chroot_);
  if (!request.ok()) return Failed<CreateIfNotExistsResult>(engine_, request.status());
  return SendCreate<CreateIfNotExistsResult>(engine_, *std::move(request), chroot_,
                                             DeadlineOf(options.deadline_ms),
                                             options.create_parents);
}

Call<Stat> Client::AsyncSet(std::string_view path, std::string data, SetOptions options) {
  Transaction::SetOperation operation{std::string(path), std::move(data), options.version};
  absl::StatusOr<RequestPtr> request = WriteOf(operation, chroot_);
  if (!request.ok()) return Failed<Stat>(engine_, request.status());
  return Send<Stat>(engine_, *std::move(request), DeadlineOf(options.deadline_ms),
                    [](v1::Response* r) { return FromProto(r->write().results(0).stat()); });
}

Call<Stat> Client::AsyncSetAcl(std::string_view path, std::vector<Acl> acl, SetOptions options) {
  Transaction::SetAclOperation operation{std::string(path), std::move(acl), options.version};
  absl::StatusOr<RequestPtr> request = WriteOf(operation, chroot_);
  if (!request.ok()) return Failed<Stat>(engine_, request.status());
  return Send<Stat>(engine_, *std::move(request), DeadlineOf(options.deadline_ms),
                    [](v1::Response* r) { return FromProto(r->write().results(0).stat()); });
}

Call<uint32_t> Client::AsyncDelete(std::string_view path, DeleteOptions options) {
  Transaction::DeleteOperation operation{std::string(path), options.version, options.recursive};
  absl::StatusOr<RequestPtr> request = WriteOf(operation, chroot_);
  if (!request.ok()) return Failed<uint32_t>(engine_, request.status());
  return Send<uint32_t>(engine_, *std::move(request), DeadlineOf(options.deadline_ms),
                        [](v1::Response* r) { return r->write().results(0).removed(); });
}

Call<uint32_t> Client::AsyncRemoveRecursive(std::string_view path, RemoveRecursiveOptions options) {
  Transaction::RemoveRecursiveOperation operation{std::string(path), options.limit};
  absl::StatusOr<RequestPtr> request = WriteOf(operation, chroot_);
  if (!request.ok()) return Failed<uint32_t>(engine_, request.status());
  return Send<uint32_t>(engine_, *std::move(request), DeadlineOf(options.deadline_ms),
                        [](v1::Response* r) { return r->write().results(0).removed(); });
}

Call<bool> Client::AsyncTryRemove(std::string_view path, TryRemoveOptions options) {
  Transaction::TryRemoveOperation operation{std::string(path), options.version};
  absl::StatusOr<RequestPtr> request = WriteOf(operation, chroot_);
  if (!request.ok()) return Failed<bool>(engine_, request.status());
  return Send<bool>(engine_, *std::move(request), DeadlineOf(options.deadline_ms),
                    [](v1::Response* r) { return r->write().results(0).removed() > 0; });
}

Call<TransactionResult> Client::AsyncCommit(const Transaction& transaction, CallOptions options) {
  auto request = std::make_unique<v1::Request>();
  if (absl::Status s = internal::ToProto(transaction, chroot_, request->mutable_write()); !s.ok()) {
    return Failed<TransactionResult>(engine_, s);
  }
  return Send<TransactionResult>(
      engine_, std::move(request), DeadlineOf(options.deadline_ms),
      [chroot = chroot_](v1::Response* response) {
        TransactionResult result;
        result.zxid = response->zxid();
        result.succeeded = response->write().branch() != v1::BRANCH_OTHERWISE;
        for (v1::OperationResult& each : *response->mutable_write()->mutable_results()) {
          result.results.push_back({internal::StripChroot(chroot, each.path()),
                                    FromProto(each.stat()),
                                    each.removed(),
                                    each.exists(),
                                    std::move(*each.mutable_data()),
                                    {each.children().begin(), each.children().end()}});
        }
        return result;
      });
}

// --- Reads ---------------------------------------------------------------------------------------

Call<GetResult> Client::AsyncGet(std::string_view path, ReadOptions options) {
  auto request = std::make_unique<v1::Request>();
  if (absl::Status s = FillRead(chroot_, path, options, request->mutable_get()); !s.ok()) {
    return Failed<GetResult>(engine_, s);
  }
  return Send<GetResult>(
      engine_, std::move(request), DeadlineOf(options.deadline_ms), [](v1::Response* response) {
        v1::GetResult* get = response->mutable_get();
        return GetResult{std::move(*get->mutable_data()), FromProto(get->stat()), response->zxid()};
      });
}

Call<std::optional<Stat>> Client::AsyncExists(std::string_view path, ReadOptions options) {
  using Result = std::optional<Stat>;
  auto request = std::make_unique<v1::Request>();
  if (absl::Status s = FillRead(chroot_, path, options, request->mutable_exists()); !s.ok()) {
    return Failed<Result>(engine_, s);
  }
  return Send<Result>(engine_, std::move(request), DeadlineOf(options.deadline_ms),
                      [](v1::Response* response) -> Result {
                        if (!response->exists().exists()) return std::nullopt;
                        return FromProto(response->exists().stat());
                      });
}

Call<ListResult> Client::AsyncList(std::string_view path, ReadOptions options,
                                   ListDetails details) {
  auto request = std::make_unique<v1::Request>();
  v1::Request::List* list = request->mutable_list();
  if (absl::Status s = FillRead(chroot_, path, options, list); !s.ok()) {
    return Failed<ListResult>(engine_, s);
  }
  if (details.kind != ChildKind::kAll) list->set_kind(static_cast<v1::ChildKind>(details.kind));
  list->set_with_stats(details.with_stats);
  list->set_with_data(details.with_data);
  return Send<ListResult>(
      engine_, std::move(request), DeadlineOf(options.deadline_ms),
      [details](v1::Response* response) { return ListResultOf(details, response); });
}

Call<ListRecursiveResult> Client::AsyncListRecursive(std::string_view path,
                                                     ListRecursiveOptions options) {
  auto request = std::make_unique<v1::Request>();
  v1::Request::ListRecursive* list = request->mutable_list_recursive();
  if (absl::Status s = FillRead(chroot_, path, options, list); !s.ok()) {
    return Failed<ListRecursiveResult>(engine_, s);
  }
  if (options.max.has_value()) list->set_max(*options.max);
  return Send<ListRecursiveResult>(engine_, std::move(request), DeadlineOf(options.deadline_ms),
                                   [chroot = chroot_](v1::Response* response) {
                                     ListRecursiveResult result;
                                     result.zxid = response->list_recursive().watch_after_zxid();
                                     const auto& paths = response->list_recursive().paths();
                                     result.paths.reserve(static_cast<size_t>(paths.size()));
                                     for (const std::string& each : paths) {
                                       result.paths.push_back(internal::StripChroot(chroot, each));
                                     }
                                     return result;
                                   });
}

Call<GetAclResult> Client::AsyncGetAcl(std::string_view path, ReadOptions options) {
  auto request = std::make_unique<v1::Request>();
  if (absl::Status s = FillRead(chroot_, path, options, request->mutable_get_acl()); !s.ok()) {
    return Failed<GetAclResult>(engine_, s);
  }
  return Send<GetAclResult>(engine_, std::move(request), DeadlineOf(options.deadline_ms),
                            [](v1::Response* response) {
                              return GetAclResult{FromProto(response->get_acl().acl()),
                                                  FromProto(response->get_acl().stat())};
                            });
}

// --- The session ---------------------------------------------------------------------------------

Call<Done> Client::AsyncSync(CallOptions options) {
  auto request = std::make_unique<v1::Request>();
  request->mutable_sync();
  return Send<Done>(engine_, std::move(request), DeadlineOf(options.deadline_ms),
                    [](v1::Response*) { return Done(); });
}

Call<std::vector<Identity>> Client::AsyncWhoAmI(CallOptions options) {
  using Identities = std::vector<Identity>;
  auto request = std::make_unique<v1::Request>();
  request->mutable_who_am_i();
  return Send<Identities>(engine_, std::move(request), DeadlineOf(options.deadline_ms),
                          [](v1::Response* response) {
                            Identities identities;
                            for (const auto& each : response->who_am_i().identities()) {
                              identities.push_back({each.scheme(), each.id()});
                            }
                            return identities;
                          });
}

Call<Done> Client::AsyncAddCredential(Credential credential, CallOptions options) {
  auto request = std::make_unique<v1::Request>();
  if (absl::Status s = internal::ToProto(credential, request->mutable_add_credential()); !s.ok()) {
    return Failed<Done>(engine_, s);
  }
  internal::PresentedCredentials* const presented = &engine_->credentials();
  const std::string text = v1::CredentialText(credential.scheme, credential.secret);
  if (absl::Status s = presented->Reserve(text); !s.ok()) return Failed<Done>(engine_, s);
  auto state = NewState<Done>(engine_);
  engine_->Submit(state->number, std::move(request), DeadlineOf(options.deadline_ms),
                  [state, presented, text](absl::StatusOr<v1::Response> response) {
                    if (response.ok()) {
                      presented->Confirm(text);
                      return Finish<Done>(state, Done());
                    }
                    presented->Withdraw(text);
                    return Finish<Done>(state, response.status());
                  });
  return Call<Done>(state);
}

Call<WatchHandle> Client::AsyncWatch(std::string_view path, WatchScope scope,
                                     WatchCallback callback, WatchOptions options) {
  absl::Status checked = internal::CheckPath(path);
  if (checked.ok() && options.after_zxid < 0) {
    checked = absl::InvalidArgumentError("after_zxid must not be negative");
  }
  if (!checked.ok()) return Failed<WatchHandle>(engine_, checked);
  v1::Request::Watch watch;
  watch.set_path(internal::AddChroot(chroot_, path));
  watch.set_scope(static_cast<v1::WatchScope>(scope));
  watch.set_after_zxid(options.after_zxid);
  auto notifier = std::make_shared<internal::WatchNotifier>(
      [chroot = chroot_, callback = std::move(callback)](const WatchNotification& full) mutable {
        const Event* event = std::get_if<Event>(&full);
        if (event == nullptr || chroot.empty()) return callback(full);
        Event below = *event;
        below.path = internal::StripChroot(chroot, event->path);
        callback(below);
      });
  auto state = NewState<WatchHandle>(engine_);
  const uint64_t watch_id = engine_->NewWatch();
  auto end =
      EndOf(engine_, notifier, [watch_id](Engine* engine) { engine->RemoveWatch(watch_id); });
  engine_->SubmitWatch(state->number, watch_id, std::move(watch), DeadlineOf(options.deadline_ms),
                       std::move(notifier),
                       [state, end = std::move(end)](absl::StatusOr<v1::Response> response) {
                         if (!response.ok()) return Finish<WatchHandle>(state, response.status());
                         return Finish<WatchHandle>(state, WatchHandle(end));
                       });
  return Call<WatchHandle>(state);
}

WatchHandle Client::ListenToSession(SessionCallback callback) {
  auto notifier = std::make_shared<internal::SessionNotifier>(std::move(callback));
  const uint64_t listener_id = engine_->NewWatch();
  engine_->AddListener(listener_id, notifier);
  return WatchHandle(EndOf(engine_, std::move(notifier),
                           [listener_id](Engine* engine) { engine->RemoveListener(listener_id); }));
}

absl::Status Client::SetServers(std::string_view servers) {
  absl::StatusOr<internal::Servers> parsed = internal::ParseServers(servers);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->chroot.empty() && parsed->chroot != chroot_) {
    return absl::InvalidArgumentError(absl::StrCat("servers: the chroot is ",
                                                   chroot_.empty() ? "/" : chroot_,
                                                   ", and cannot be changed to ", parsed->chroot));
  }
  return engine_->SetMembers(std::move(parsed->members));
}

absl::Status Client::Close(CallOptions options) {
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  auto request = std::make_unique<v1::Request>();
  request->mutable_close();
  const int deadline_ms =
      options.deadline_ms == 0 ? engine_->session_timeout_ms() : options.deadline_ms;
  return Send<Done>(engine_, std::move(request), deadline_ms, [](v1::Response*) { return Done(); })
      .Wait()
      .status();
}

// --- Calls that wait -----------------------------------------------------------------------------

namespace {

// Makes a call and waits for it. Sends nothing if the calling thread must not block.
template <class Begin>
auto WaitFor(Begin begin) -> decltype(begin().Wait()) {
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  return begin().Wait();
}

}  // namespace

absl::StatusOr<CreateResult> Client::Create(std::string_view path, std::string data,
                                            CreateOptions options) {
  return WaitFor([&] { return AsyncCreate(path, std::move(data), std::move(options)); });
}
absl::StatusOr<GetResult> Client::Get(std::string_view path, ReadOptions options) {
  return WaitFor([&] { return AsyncGet(path, options); });
}
absl::StatusOr<std::optional<Stat>> Client::Exists(std::string_view path, ReadOptions options) {
  return WaitFor([&] { return AsyncExists(path, options); });
}
absl::StatusOr<ListResult> Client::List(std::string_view path, ReadOptions options,
                                        ListDetails details) {
  return WaitFor([&] { return AsyncList(path, options, details); });
}
absl::StatusOr<ListRecursiveResult> Client::ListRecursive(std::string_view path,
                                                          ListRecursiveOptions options) {
  return WaitFor([&] { return AsyncListRecursive(path, options); });
}
absl::StatusOr<GetAclResult> Client::GetAcl(std::string_view path, ReadOptions options) {
  return WaitFor([&] { return AsyncGetAcl(path, options); });
}
absl::StatusOr<Stat> Client::Set(std::string_view path, std::string data, SetOptions options) {
  return WaitFor([&] { return AsyncSet(path, std::move(data), options); });
}
absl::StatusOr<Stat> Client::SetAcl(std::string_view path, std::vector<Acl> acl,
                                    SetOptions options) {
  return WaitFor([&] { return AsyncSetAcl(path, std::move(acl), options); });
}
absl::StatusOr<uint32_t> Client::Delete(std::string_view path, DeleteOptions options) {
  return WaitFor([&] { return AsyncDelete(path, options); });
}
absl::StatusOr<CreateIfNotExistsResult> Client::CreateIfNotExists(std::string_view path,
                                                                  std::string data,
                                                                  CreateOptions options) {
  return WaitFor([&] { return AsyncCreateIfNotExists(path, std::move(data), std::move(options)); });
}
absl::StatusOr<uint32_t> Client::RemoveRecursive(std::string_view path,
                                                 RemoveRecursiveOptions options) {
  return WaitFor([&] { return AsyncRemoveRecursive(path, options); });
}
absl::StatusOr<bool> Client::TryRemove(std::string_view path, TryRemoveOptions options) {
  return WaitFor([&] { return AsyncTryRemove(path, options); });
}
absl::StatusOr<TransactionResult> Client::Commit(const Transaction& transaction,
                                                 CallOptions options) {
  return WaitFor([&] { return AsyncCommit(transaction, options); });
}
absl::Status Client::Sync(CallOptions options) {
  return WaitFor([&] { return AsyncSync(options); }).status();
}
absl::StatusOr<std::vector<Identity>> Client::WhoAmI(CallOptions options) {
  return WaitFor([&] { return AsyncWhoAmI(options); });
}
absl::Status Client::AddCredential(Credential credential, CallOptions options) {
  return WaitFor([&] { return AsyncAddCredential(std::move(credential), options); }).status();
}
absl::StatusOr<WatchHandle> Client::Watch(std::string_view path, WatchScope scope,
                                          WatchCallback callback, WatchOptions options) {
  return WaitFor([&] { return AsyncWatch(path, scope, std::move(callback), options); });
}

}  // namespace quorate

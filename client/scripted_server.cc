// SPDX-License-Identifier: Apache-2.0

#include "client/scripted_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"

namespace quorate {
namespace {

bool Sees(const v1::Request::Watch& watch, const std::string& path) {
  if (path == watch.path()) return true;
  const std::string below = watch.path() == "/" ? "/" : watch.path() + "/";
  if (watch.scope() == v1::WATCH_SCOPE_NODE || !path.starts_with(below)) return false;
  return watch.scope() == v1::WATCH_SCOPE_SUBTREE ||
         path.find('/', below.size()) == std::string::npos;
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool IsEphemeral(v1::CreateMode mode) {
  return mode == v1::CREATE_MODE_EPHEMERAL || mode == v1::CREATE_MODE_EPHEMERAL_SEQUENTIAL;
}

bool IsSequential(v1::CreateMode mode) {
  return mode == v1::CREATE_MODE_PERSISTENT_SEQUENTIAL ||
         mode == v1::CREATE_MODE_EPHEMERAL_SEQUENTIAL;
}

}  // namespace

class ScriptedServer::Cluster final : public v1::ClusterService::Service {
 public:
  Cluster(const Script* script, std::atomic<int>* authorized)
      : script_(script), authorized_(authorized) {}

  grpc::Status Version(grpc::ServerContext* context, const v1::VersionRequest* /*request*/,
                       v1::VersionResponse* /*response*/) override {
    if (context->client_metadata().count("authorization") > 0) ++*authorized_;
    if (script_->at_version != nullptr) script_->at_version();
    return grpc::Status::OK;
  }

 private:
  const Script* const script_;
  std::atomic<int>* const authorized_;
};

ScriptedServer::ScriptedServer(Script script)
    : script_(std::move(script)),
      cluster_(std::make_unique<Cluster>(&script_, &authorized_versions_)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  builder.RegisterService(cluster_.get());
  server_ = builder.BuildAndStart();
}

ScriptedServer::~ScriptedServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

std::vector<std::string> ScriptedServer::changes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return changes_;
}

std::vector<std::string> ScriptedServer::shown_credentials() {
  std::lock_guard<std::mutex> lock(mutex_);
  return credentials_;
}

std::vector<std::string> ScriptedServer::shown_authorizations() {
  std::lock_guard<std::mutex> lock(mutex_);
  return authorizations_;
}

size_t ScriptedServer::TakeMostUnacknowledged() {
  const std::lock_guard lock(mutex_);
  return std::exchange(most_unacknowledged_, 0);
}

uint64_t ScriptedServer::acknowledged() {
  std::lock_guard<std::mutex> lock(mutex_);
  return acknowledged_;
}

int ScriptedServer::streams() {
  std::lock_guard<std::mutex> lock(mutex_);
  return streams_;
}

void ScriptedServer::ExpireSessions() {
  std::lock_guard<std::mutex> lock(mutex_);
  sessions_.clear();
}

void ScriptedServer::ForgetEvents() {
  std::lock_guard<std::mutex> lock(mutex_);
  oldest_ = zxid_;
}

grpc::Status ScriptedServer::At(Moment moment) {
  int number = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    number = ++moments_;
  }
  return script_.at_moment == nullptr ? grpc::Status::OK : script_.at_moment(number, moment);
}

namespace {

std::vector<std::string> ValuesOf(const grpc::ServerContext& context, const char* key) {
  std::vector<std::string> values;
  const auto [begin, end] = context.client_metadata().equal_range(key);
  for (auto it = begin; it != end; ++it) values.emplace_back(it->second.data(), it->second.size());
  return values;
}

}  // namespace

grpc::Status ScriptedServer::Session(grpc::ServerContext* context, ServerStream* stream) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    authorizations_ = ValuesOf(*context, "authorization");
    credentials_ = ValuesOf(*context, "quorate-credential");
  }
  Attached attached;
  v1::SessionRequest message;
  while (stream->Read(&message)) {
    if (script_.is_silent != nullptr && script_.is_silent()) continue;
    if (grpc::Status s = At(Moment::kReceived); !s.ok()) return s;
    v1::SessionResponse response;
    if (message.has_open()) {
      if (script_.at_open != nullptr) {
        if (grpc::Status s = script_.at_open(message.open()); !s.ok()) return s;
      }
      if (grpc::Status s = Open(message.open(), &attached, &response); !s.ok()) return s;
    }
    const grpc::Status answered = Answer(message, &attached);
    if (grpc::Status s = At(Moment::kDone); !s.ok()) return s;
    if (grpc::Status s = Send(&attached, std::move(response), stream); !s.ok()) return s;
    if (!answered.ok()) return answered;
  }
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::Open(const v1::OpenSession& open, Attached* attached,
                                  v1::SessionResponse* response) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++streams_;
  attached->session = open.session_id() == 0 ? ++last_session_ : open.session_id();
  if (open.session_id() == 0) sessions_[attached->session].password = open.password();
  const auto session = sessions_.find(attached->session);
  if (session == sessions_.end() || session->second.password != open.password()) {
    return {grpc::StatusCode::UNAUTHENTICATED, "no such session"};
  }
  attached->next_event = events_.size();
  response->mutable_opened()->set_session_id(attached->session);
  *response->mutable_opened()->mutable_timeout() = open.timeout();
  response->mutable_opened()->set_member(1);
  response->mutable_opened()->set_last_sequence(session->second.last_sequence);
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::Answer(const v1::SessionRequest& message, Attached* attached) {
  std::lock_guard<std::mutex> lock(mutex_);
  acknowledged_ = std::max(acknowledged_, message.acknowledged_sequence());
  const auto session = sessions_.find(attached->session);
  if (session == sessions_.end()) {
    return {grpc::StatusCode::UNAUTHENTICATED, "the session has ended"};
  }
  std::erase_if(session->second.answers, [&message](const auto& answer) {
    return answer.first <= message.acknowledged_sequence();
  });
  for (const v1::Request& request : message.requests()) {
    v1::Response response = Do(request, attached);
    if (script_.at_answer != nullptr) script_.at_answer(request, &response);
    const v1::Request::Watch* watch =
        request.has_watch() && response.error() == v1::ERROR_CODE_UNSPECIFIED ? &request.watch()
                                                                              : nullptr;
    const bool goes_on = watch != nullptr && watch->after_zxid() != 0;
    // A watch with after_zxid also gets the events since the last answer on its stream.
    if (goes_on) attached->watches[watch->watch_id()] = *watch;
    SendEvents(attached->next_event, events_.size(), nullptr, attached);
    attached->next_event = events_.size();
    if (watch != nullptr && !goes_on) attached->watches[watch->watch_id()] = *watch;
    response.set_id(request.id());
    *attached->items.emplace_back().mutable_response() = response;
  }
  return grpc::Status::OK;
}

v1::Response ScriptedServer::Do(const v1::Request& request, Attached* attached) {
  v1::Response response;
  response.set_zxid(zxid_);
  if (request.has_write()) return DoWrite(request.write(), attached->session);
  if (request.has_get()) {
    const auto node = nodes_.find(request.get().path());
    if (node == nodes_.end()) {
      response.set_error(v1::ERROR_CODE_NO_NODE);
    } else {
      response.mutable_get()->set_data(node->second.data);
      *response.mutable_get()->mutable_stat() = StatOf(*node);
    }
  } else if (request.has_exists()) {
    const auto node = nodes_.find(request.exists().path());
    response.mutable_exists()->set_exists(node != nodes_.end());
    if (node != nodes_.end()) *response.mutable_exists()->mutable_stat() = StatOf(*node);
  } else if (request.has_list()) {
    const std::string& path = request.list().path();
    if (path != "/" && !nodes_.contains(path)) {
      response.set_error(v1::ERROR_CODE_NO_NODE);
    } else {
      for (std::string& name : ChildrenOf(path)) {
        response.mutable_list()->add_children(std::move(name));
      }
    }
  } else if (request.has_watch()) {
    const int64_t after = request.watch().after_zxid();
    if (after != 0 && after < oldest_) {
      response.set_error(v1::ERROR_CODE_EVENTS_LOST);
      response.mutable_watch()->set_oldest_zxid(oldest_);
    } else if (after != 0) {
      size_t from = 0;
      while (from < events_.size() && events_[from].zxid() <= after) ++from;
      SendEvents(from, attached->next_event, &request.watch(), attached);
    }
  } else if (request.has_unwatch()) {
    attached->watches.erase(request.unwatch().watch_id());
  } else if (request.has_close()) {
    sessions_.erase(attached->session);
  }
  return response;
}

std::vector<std::string> ScriptedServer::ChildrenOf(const std::string& path) const {
  const std::string above = path == "/" ? "" : path;
  std::vector<std::string> names;
  for (const auto& [other, node] : nodes_) {
    if (ParentOf(other) == above) names.push_back(other.substr(above.size() + 1));
  }
  return names;
}

v1::Stat ScriptedServer::StatOf(const std::pair<const std::string, Node>& node) const {
  v1::Stat stat = node.second.stat;
  stat.set_children(static_cast<int32_t>(ChildrenOf(node.first).size()));
  return stat;
}

v1::Response ScriptedServer::DoWrite(const v1::Request::Write& write, int64_t session_id) {
  SessionState& session = sessions_[session_id];
  if (write.sequence() <= session.last_sequence) {
    const auto answer = session.answers.find(write.sequence());
    if (answer != session.answers.end()) return answer->second;
    v1::Response response;
    response.set_error(v1::ERROR_CODE_ALREADY_ACKNOWLEDGED);
    return response;
  }
  v1::Response response;
  if (write.sequence() != session.last_sequence + 1) {
    response.set_error(v1::ERROR_CODE_OUT_OF_SEQUENCE);
    return response;
  }
  if (session.answers.size() >= script_.unacknowledged_max) {
    response.set_error(v1::ERROR_CODE_TOO_MANY_UNACKNOWLEDGED);
    return response;
  }
  session.last_sequence = write.sequence();
  response.set_zxid(++zxid_);
  if (script_.refuses != nullptr) response.set_error(script_.refuses(write));
  for (const v1::Operation& operation : write.operations()) {
    if (response.error() != v1::ERROR_CODE_UNSPECIFIED) break;
    v1::OperationResult* result = response.mutable_write()->add_results();
    result->set_error(Apply(operation, session_id, result));
    response.set_error(result->error());
  }
  session.answers[write.sequence()] = response;
  most_unacknowledged_ = std::max(most_unacknowledged_, session.answers.size());
  return response;
}

v1::ErrorCode ScriptedServer::Create(const v1::Operation::Create& create, int64_t session_id,
                                     v1::OperationResult* result) {
  std::string path = create.path();
  const std::string parent = ParentOf(path);
  if (!parent.empty() && !nodes_.contains(parent)) return v1::ERROR_CODE_NO_NODE;
  if (IsSequential(create.mode())) absl::StrAppendFormat(&path, "%010d", next_number_++);
  const auto [node, fresh] = nodes_.try_emplace(path, Node{create.data(), {}});
  if (!fresh) return v1::ERROR_CODE_NODE_EXISTS;
  node->second.stat.set_created_zxid(zxid_);
  node->second.stat.set_modified_zxid(zxid_);
  if (IsEphemeral(create.mode())) node->second.stat.set_ephemeral_session(session_id);
  result->set_path(path);
  *result->mutable_stat() = node->second.stat;
  return v1::ERROR_CODE_UNSPECIFIED;
}

v1::ErrorCode ScriptedServer::Apply(const v1::Operation& operation, int64_t session_id,
                                    v1::OperationResult* result) {
  v1::Event event;
  event.set_zxid(zxid_);
  if (operation.has_create()) {
    const v1::ErrorCode error = Create(operation.create(), session_id, result);
    if (error != v1::ERROR_CODE_UNSPECIFIED) return error;
    event.set_path(result->path());
    event.set_type(v1::EVENT_TYPE_NODE_CREATED);
    changes_.push_back("create " + event.path());
  } else if (operation.has_set()) {
    const auto node = nodes_.find(operation.set().path());
    if (node == nodes_.end()) return v1::ERROR_CODE_NO_NODE;
    node->second.data = operation.set().data();
    node->second.stat.set_version(node->second.stat.version() + 1);
    node->second.stat.set_modified_zxid(zxid_);
    *result->mutable_stat() = node->second.stat;
    event.set_path(node->first);
    event.set_type(v1::EVENT_TYPE_NODE_DATA_CHANGED);
    changes_.push_back("set " + node->first + "=" + node->second.data);
  } else if (operation.has_delete_()) {
    event.set_path(operation.delete_().path());
    if (nodes_.erase(event.path()) == 0) return v1::ERROR_CODE_NO_NODE;
    event.set_type(v1::EVENT_TYPE_NODE_DELETED);
    changes_.push_back("delete " + event.path());
  } else {
    const bool of_creation = operation.has_check_created();
    const auto node =
        nodes_.find(of_creation ? operation.check_created().path() : operation.check().path());
    if (node == nodes_.end()) return v1::ERROR_CODE_NO_NODE;
    const v1::Stat& stat = node->second.stat;
    const bool is_so = of_creation ? stat.created_zxid() == operation.check_created().created_zxid()
                                   : stat.version() == operation.check().version();
    return is_so ? v1::ERROR_CODE_UNSPECIFIED : v1::ERROR_CODE_BAD_VERSION;
  }
  events_.push_back(event);
  return v1::ERROR_CODE_UNSPECIFIED;
}

void ScriptedServer::SendEvents(size_t from, size_t to, const v1::Request::Watch* only,
                                Attached* attached) {
  for (size_t i = from; i < to; ++i) {
    v1::WatchEvent told;
    *told.mutable_event() = events_[i];
    if (only != nullptr) {
      if (Sees(*only, events_[i].path())) told.add_watch_ids(only->watch_id());
    } else {
      for (const auto& [id, watch] : attached->watches) {
        if (events_[i].zxid() > watch.after_zxid() && Sees(watch, events_[i].path())) {
          told.add_watch_ids(id);
        }
      }
    }
    if (told.watch_ids_size() > 0) *attached->items.emplace_back().mutable_event() = told;
  }
}

grpc::Status ScriptedServer::Send(Attached* attached, v1::SessionResponse first,
                                  ServerStream* stream) {
  std::vector<v1::SessionItem> items = std::exchange(attached->items, {});
  v1::SessionResponse response = std::move(first);
  const auto send = [&]() -> grpc::Status {
    if (!stream->Write(response)) return {grpc::StatusCode::CANCELLED, "the client is gone"};
    response.Clear();
    return At(Moment::kSent);
  };
  for (size_t i = 0; i < items.size(); ++i) {
    response.add_items()->Swap(&items[i]);
    if (!script_.sends_single_items || i + 1 == items.size()) continue;
    if (grpc::Status s = send(); !s.ok()) return s;
  }
  if (!items.empty()) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (attached->next_event == events_.size()) response.set_zxid(zxid_);
  }
  if (!response.has_opened() && items.empty()) return grpc::Status::OK;
  return send();
}

}  // namespace quorate

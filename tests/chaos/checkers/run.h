// A run as the history checker sees it: the histories of all processes, with each operation as one
// thing, and for each client what happened to it in its order.
//
// Texts are kept once, however often they were read, and lines are left in their files: a run of a
// million lines takes a few hundred megabytes.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_set.h"
#include "absl/status/status.h"
#include "tests/chaos/history.h"

namespace quorate::chaos {

// Where a line is.
struct LineId {
  int32_t file = -1;  // none
  int64_t offset = 0;
  friend auto operator<=>(const LineId&, const LineId&) = default;
};

enum class Function : uint8_t {
  kGet,
  kExists,
  kList,
  kCreate,
  kSet,
  kDelete,
  kSync,
  kMulti,
  kMultiGet,
  kWatch,
  kAdd,
  kClose,
};

enum class Outcome : uint8_t {
  kOk,
  kRefused,
  kUnknown,  // also if its process was killed before it was answered
};

inline constexpr size_t kNone = SIZE_MAX;
inline constexpr int64_t kNever = INT64_MAX;

// A step of a multi with its answer, or what a multi-get says of a path.
struct RunStep {
  Function function = Function::kGet;
  bool check = false;  // a step that only checks the version; `function` means nothing
  bool ephemeral = false;
  bool sequential = false;
  std::string_view path;
  std::string_view made;  // path of a creation
  std::string_view data;  // written, or read
  int32_t version = -1;   // expected
  std::optional<Stat> stat;
  std::string_view error;
};

struct Operation {
  size_t id = 0;  // index in Run::operations(): they are in the order of their invocations
  LineId invoked_line;
  LineId answered_line;  // no file: there was none
  int64_t invoked_ns = 0;
  int64_t answered_ns = kNever;
  // Of an unknown one: if it takes effect, then before this.
  int64_t until_ns = kNever;
  int32_t client = 0;
  Function function = Function::kGet;
  Outcome outcome = Outcome::kUnknown;
  bool linearizable = false;
  bool ephemeral = false;
  bool sequential = false;
  int32_t version = -1;
  size_t session = kNone;  // index in Run::sessions()
  std::string_view workload;
  std::string_view path;
  std::string_view written;
  std::string_view kind;
  int64_t delta = 0;
  int64_t watch = 0;
  // Answer.
  std::string_view made;  // path of a creation
  std::string_view read;
  std::string_view error;
  int64_t zxid = 0;
  int64_t value = 0;
  std::optional<Stat> stat;
  std::vector<std::string_view> children;
  std::vector<RunStep> steps;  // of a multi, a multi-get

  bool ok() const { return outcome == Outcome::kOk; }
  // Of nodes; the end of a session is none.
  bool IsWrite() const;
  // The client knows that a majority stood behind the answer: a write, or a linearizable read.
  bool IsConfirmed() const { return IsWrite() || linearizable || function == Function::kSync; }
  // The zxid of a write that was acknowledged; 0 if it is not known.
  int64_t WriteZxid() const;
};

struct WatchEvent {
  LineId line;
  int64_t time_ns = 0;
  std::string_view path;
  std::string_view type;
  int64_t zxid = 0;
  int64_t watch = 0;
};

enum class SessionEnd : uint8_t { kUnseen, kClosed, kExpired, kAbandoned };

struct Session {
  int64_t id = 0;
  int32_t client = 0;
  int32_t process = 0;
  bool native = false;
  int32_t timeout_ms = 0;
  LineId began_line;
  SessionEnd end = SessionEnd::kUnseen;
  int64_t end_ns = kNever;
  LineId end_line;
  int64_t answered_ns = 0;  // when a message that was answered had been sent, the last one known of
  std::vector<size_t> operations;  // in the order of their invocations
};

// One line of a client.
struct ClientLine {
  What what = What::kInvoke;
  LineId line;
  int64_t time_ns = 0;
  size_t session = kNone;  // the one it had then, or has from then on
  // Of an operation's line, the operation; of an event's and a watch-reset's, the event.
  size_t index = kNone;
};

struct Client {
  int32_t number = 0;
  std::vector<ClientLine> lines;
};

class Run {
 public:
  Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Reads one more history. NotFound and the like, InvalidArgument for what no worker would write.
  absl::Status AddFile(const std::string& path);
  // After the last file.
  void Finish();

  const std::vector<Operation>& operations() const { return operations_; }
  const std::vector<WatchEvent>& events() const { return events_; }
  const std::vector<Session>& sessions() const { return sessions_; }
  const std::vector<Client>& clients() const { return clients_; }
  int64_t lines() const { return lines_; }
  int64_t first_ns() const { return first_ns_; }
  // When the process was last seen to be alive.
  int64_t LastSignOf(int32_t process) const;

  // The text of a line, read from its file.
  std::string TextOf(const LineId& line) const;

 private:
  struct Open {
    size_t operation = kNone;
    size_t client = kNone;
  };

  std::string_view Keep(const std::string& text);
  size_t ClientOf(int32_t number);
  absl::Status Add(const Line& line, LineId id);
  absl::Status AddInvoke(const Line& line, LineId id, size_t client);
  absl::Status AddAnswer(const Line& line, LineId id);
  void AddSessionLine(const Line& line, LineId id, size_t client);
  void BoundUnknown();

  std::vector<std::string> files_;
  absl::node_hash_set<std::string> texts_;
  std::vector<Operation> operations_;
  std::vector<WatchEvent> events_;
  std::vector<Session> sessions_;
  std::vector<Client> clients_;
  absl::flat_hash_map<int32_t, size_t> client_by_number_;
  std::vector<size_t> session_of_client_;
  absl::flat_hash_map<int32_t, int64_t> last_sign_;  // by process
  // By process and number: those that are not answered yet, and answered ones with kNone.
  absl::flat_hash_map<std::pair<int32_t, int64_t>, size_t> open_;
  int64_t lines_ = 0;
  int64_t first_ns_ = kNever;
};

}  // namespace quorate::chaos

// SPDX-License-Identifier: Apache-2.0

// A run as the history checker sees it: the histories of all processes, with each operation as one
// object, and for each client its lines in order.
//
// Texts are kept once, however often they were read, and lines stay in their files: a run of a
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

// Identifies a line by its file and its offset there.
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

// A step of a multi with its answer, or the answer of a multi-get for one path.
struct RunStep {
  Function function = Function::kGet;
  bool check = false;  // a step that only checks the version; `function` is not used
  bool ephemeral = false;
  bool sequential = false;
  std::string_view path;
  std::string_view made;  // the path that a creation created
  std::string_view data;  // written, or read
  int32_t version = -1;   // expected
  std::optional<Stat> stat;
  std::string_view error;
};

struct Operation {
  size_t id = 0;  // index in Run::operations(), which is in the order of invocations
  LineId invoked_line;
  LineId answered_line;  // no file: there was no answer
  int64_t invoked_ns = 0;
  int64_t answered_ns = kNever;
  // If the outcome is unknown: the operation takes effect before this time, or never.
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
  // The answer.
  std::string_view made;  // the path that a creation created
  std::string_view read;
  std::string_view error;
  int64_t zxid = 0;
  int64_t value = 0;
  std::optional<Stat> stat;
  std::vector<std::string_view> children;
  std::vector<RunStep> steps;  // of a multi, a multi-get

  bool ok() const { return outcome == Outcome::kOk; }
  // Whether the operation changes nodes; a close does not count.
  bool IsWrite() const;
  // Whether an ok proves that a majority confirmed the operation: a write, or a linearizable read.
  bool IsConfirmed() const { return IsWrite() || linearizable || function == Function::kSync; }
  // The zxid of an acknowledged write; 0 if it is not known.
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
  int64_t answered_ns = 0;  // the last known time at which a message that was answered had been
                            // sent
  std::vector<size_t> operations;  // in the order of their invocations
};

// One line of a client.
struct ClientLine {
  What what = What::kInvoke;
  LineId line;
  int64_t time_ns = 0;
  size_t session = kNone;  // the session at that time, or from then on
  // For an operation's line: the operation. For an event or a watch-reset: the event.
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

  // Reads another history. Errors: NotFound and the like; InvalidArgument for lines that no worker
  // writes.
  absl::Status AddFile(const std::string& path);
  // Called after the last file.
  void Finish();

  const std::vector<Operation>& operations() const { return operations_; }
  const std::vector<WatchEvent>& events() const { return events_; }
  const std::vector<Session>& sessions() const { return sessions_; }
  const std::vector<Client>& clients() const { return clients_; }
  int64_t lines() const { return lines_; }
  int64_t first_ns() const { return first_ns_; }
  // The time of the process's last line.
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
  // By process and operation number: operations without an answer; kNone for answered ones.
  absl::flat_hash_map<std::pair<int32_t, int64_t>, size_t> open_;
  int64_t lines_ = 0;
  int64_t first_ns_ = kNever;
};

}  // namespace quorate::chaos

// SPDX-License-Identifier: Apache-2.0

// The history of a chaos run: what each client sent and received, one JSON object a line, one file
// a process. Workers write the history, the history checker reads it.
//
//   {"t":81200312345,"p":1,"c":4,"e":"invoke","o":17,"w":"register","f":"set","path":"/r/3",
//    "data":"1.4.17","version":6}
//   {"t":81201207114,"p":1,"c":4,"e":"ok","o":17,"stat":{...,"version":7,...},"zxid":9120,
//    "server":"10.8.0.2:2181"}
//
// Guarantees of a writer, on which the history checker relies:
//  - Times are CLOCK_MONOTONIC, which all processes of a machine share. An "invoke" is written
//    before the first byte is sent, an "ok" or a "refused" after the answer was received.
//  - The lines of a client are in the order of its events: on one connection an event that came
//    before an answer is written before it. (Lines of different clients may be mixed.)
//  - A client has one session at a time: that of its last "connected" line, until the line that
//    says how the session ended. Its operations belong to that session, in the order of their
//    invocations.
//  - "refused" is written only for an operation that certainly did not happen and never will. In
//    doubt the line is "unknown".
//  - All data written to one path are different, so that data read identify the write; only
//    creations of one path all have the same data. The data of counters and accounts begin with a
//    number: "17" or "17 4.231". Logs are entries with a blank between two.
//  - On the native front end too, lines are written on the thread on which the client library
//    reports answers and events, in their order.
//  - Nodes are created by operations that are in the history too, also the nodes that prepare a
//    workload (all processes may try: one creation succeeds, the others are refused).
//  - Operation numbers begin at 1 in each process, numbers of watches at 1 in each client.
//
// Thread-safety: the functions: any; HistoryWriter: any; HistoryReader: one thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate::chaos {

// The kind of a line; "e".
enum class What : uint8_t {
  kInvoke,        // "invoke"
  kOk,            // "ok": it happened; the line has the answer
  kRefused,       // "refused": it did not happen and never will
  kUnknown,       // "unknown": it may have happened, may still happen, or never
  kEvent,         // "event"
  kWatchReset,    // "watch-reset": the front end reports that events may have been missed
  kConnected,     // "connected"
  kDisconnected,  // "disconnected"
  kExpired,       // "expired": a server reports that the session has ended
  kAbandoned,     // "abandoned": the client sends nothing more on the session, and did not close it
  kClosed,        // "closed": the close of the session was acknowledged
  kEnd,           // "end": the last line of a client that ended normally
};

// As on the wire; {"czxid":,"mzxid":,"pzxid":,"version":,"cversion":,"owner":,"length":}.
struct Stat {
  int64_t czxid = 0;
  int64_t mzxid = 0;
  int64_t pzxid = 0;
  int32_t version = 0;
  int32_t cversion = 0;
  int64_t owner = 0;  // session; 0: not ephemeral
  int32_t length = 0;
  friend bool operator==(const Stat&, const Stat&) = default;
};

// One step of a multi; {"f":,"path":,"data":,"version":,"mode":}.
struct Step {
  std::string function;  // "create", "set", "delete" or "check"
  std::string path;
  std::string data;
  int32_t version = -1;
  std::string mode;
  friend bool operator==(const Step&, const Step&) = default;
};

// The answer to one step of a multi, or to one path of a multi-get;
// {"path":,"data":,"stat":,"error":}.
struct Result {
  std::string path;  // of a creation
  std::string data;  // of a read
  std::optional<Stat> stat;
  std::string error;
  friend bool operator==(const Result&, const Result&) = default;
};

// A line. A field that does not apply has its default value, and is not written.
struct Line {
  int64_t time_ns = 0;  // "t"
  int32_t process = 0;  // "p"
  int32_t client = 0;   // "c": unique in all processes
  What what = What::kInvoke;

  // --- Operations: invoke, ok, refused, unknown --------------------------------------------------
  int64_t operation = 0;  // "o": unique in the process
  std::string workload;   // "w", of an invoke: "register", "set", ...
  // "f", of an invoke: "get", "exists", "list", "create", "set", "delete", "sync", "multi",
  // "multi-get", "watch", "add", "close".
  std::string function;
  // Of an invoke, an event, a watch-reset. Of the ok of a create: the path that was created.
  std::string path;
  // Of an invoke: data to write. Of an ok: data read.
  std::string data;
  int32_t version = -1;            // of an invoke: the version it depends on; -1: any
  bool linearizable = false;       // of an invoke of get, exists, list, multi-get
  std::string mode;                // create: "persistent", "ephemeral", "sequential",
                                   // "ephemeral-sequential"
  std::string kind;                // watch: "data", "exist", "children", "persistent", "recursive"
  int64_t delta = 0;               // add
  std::vector<std::string> paths;  // multi-get
  std::vector<Step> steps;         // multi
  // Of an ok, and of a refused read: the zxid in the reply's header. Of an event: that of the
  // change.
  int64_t zxid = 0;
  std::string server;                 // of an ok, a connected, a disconnected: as in --servers
  std::optional<Stat> stat;           // of an ok of get, exists, list, create, set, watch
  std::vector<std::string> children;  // of an ok of list: names, in any order
  std::vector<Result> results;        // of an ok of multi, multi-get
  int64_t value = 0;                  // of an ok of add: the value after it
  std::string error;  // of refused, unknown: "NoNode", "BadVersion", "ConnectionLoss"

  // --- Watches -----------------------------------------------------------------------------------

  // The number of the watch: of the invoke of a watch, an event, a watch-reset. The ok of a watch
  // on the ZooKeeper front end has the data and stat, or the children, of the read that set the
  // watch.
  int64_t watch = 0;
  std::string type;  // of an event: "created", "deleted", "changed", "children"

  // --- Sessions ----------------------------------------------------------------------------------

  int64_t session = 0;
  std::string frontend;      // of a connected: "zookeeper" or "native"
  bool new_session = false;  // "new", of a connected
  int32_t timeout_ms = 0;    // of a connected: as negotiated
  // "answered", of a disconnected, an expired, an abandoned: when the last answered message of this
  // session was sent, pings included; the server received a message of the client at that time or
  // later.
  int64_t answered_ns = 0;
  std::string reason;  // of a disconnected: free text for readers

  friend bool operator==(const Line&, const Line&) = default;
};

// The value of "e": "invoke", "ok" and so on.
std::string_view NameOf(What what);

// The time by CLOCK_MONOTONIC.
int64_t NowNs();

// Prints a line, without the line's end. Bytes that are not UTF-8 are replaced.
std::string Print(const Line& line);

// Parses what Print returns. InvalidArgument, naming the wrong field, if `text` is no such line;
// unknown fields are ignored.
absl::StatusOr<Line> Parse(std::string_view text);

// Writes the history of a process.
class HistoryWriter {
 public:
  // Creates the file at `path`, or appends to it. `process` goes into each line.
  static absl::StatusOr<std::unique_ptr<HistoryWriter>> Open(const std::string& path,
                                                             int32_t process);
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  // Adds a line by one write(); the line is in the file when this returns, even if the process is
  // killed then. A line without a time gets the current time. Ends the process if the file cannot
  // be written: a history with holes is worth nothing.
  void Write(Line line);
  // The next number for Line::operation; from 1.
  int64_t NextOperation();

 private:
  HistoryWriter(int file, int32_t process) : file_(file), process_(process) {}

  const int file_;
  const int32_t process_;
  std::mutex mutex_;
  int64_t operations_ = 0;  // guarded by mutex_
};

// Reads a history, line by line.
class HistoryReader {
 public:
  static absl::StatusOr<std::unique_ptr<HistoryReader>> Open(const std::string& path);
  ~HistoryReader();
  HistoryReader(const HistoryReader&) = delete;
  HistoryReader& operator=(const HistoryReader&) = delete;

  // Returns false at the end. An incomplete last line is left out: the process was killed while it
  // wrote the line. Other lines that cannot be parsed: InvalidArgument with file and line.
  absl::StatusOr<bool> Next(Line* line);
  // The number of the line that Next returned last; counts from 1.
  int64_t line_number() const { return line_number_; }
  // The line as it is in the file; valid until the next call.
  std::string_view text() const { return text_; }
  // The line's offset in the file, in bytes.
  int64_t offset() const { return offset_; }

 private:
  HistoryReader(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}

  std::FILE* const file_;
  const std::string path_;
  char* buffer_ = nullptr;  // allocated by getline
  size_t capacity_ = 0;
  std::string_view text_;
  int64_t line_number_ = 0;
  int64_t offset_ = 0;
  int64_t next_offset_ = 0;
};

}  // namespace quorate::chaos

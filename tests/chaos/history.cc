// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/history.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace quorate::chaos {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 12> kNames = {
    "invoke",    "ok",           "refused", "unknown",   "event",  "watch-reset",
    "connected", "disconnected", "expired", "abandoned", "closed", "end"};

// One description of the fields for both directions: `Fields` calls field(name, value, default) for
// each one.
template <class Target, class Field>
void Fields(Target& stat, Field& field, const Stat*) {
  field("czxid", stat.czxid, int64_t{0});
  field("mzxid", stat.mzxid, int64_t{0});
  field("pzxid", stat.pzxid, int64_t{0});
  field("version", stat.version, -1);  // always written
  field("cversion", stat.cversion, 0);
  field("owner", stat.owner, int64_t{0});
  field("length", stat.length, 0);
}

template <class Target, class Field>
void Fields(Target& step, Field& field, const Step*) {
  field("f", step.function, "");
  field("path", step.path, "");
  field("data", step.data, "");
  field("version", step.version, -1);
  field("mode", step.mode, "");
}

template <class Target, class Field>
void Fields(Target& result, Field& field, const Result*) {
  field("path", result.path, "");
  field("data", result.data, "");
  field("stat", result.stat, std::nullopt);
  field("error", result.error, "");
}

template <class Target, class Field>
void Fields(Target& line, Field& field, const Line*) {
  field("t", line.time_ns, int64_t{0});
  field("p", line.process, 0);
  field("c", line.client, 0);
  field("e", line.what, What{255});  // always written
  field("o", line.operation, int64_t{0});
  field("w", line.workload, "");
  field("f", line.function, "");
  field("path", line.path, "");
  field("data", line.data, "");
  field("version", line.version, -1);
  field("linearizable", line.linearizable, false);
  field("mode", line.mode, "");
  field("kind", line.kind, "");
  field("delta", line.delta, int64_t{0});
  field("paths", line.paths, std::vector<std::string>{});
  field("steps", line.steps, std::vector<Step>{});
  field("stat", line.stat, std::nullopt);
  field("children", line.children, std::vector<std::string>{});
  field("results", line.results, std::vector<Result>{});
  field("value", line.value, int64_t{0});
  field("zxid", line.zxid, int64_t{0});
  field("server", line.server, "");
  field("error", line.error, "");
  field("watch", line.watch, int64_t{0});
  field("type", line.type, "");
  field("session", line.session, int64_t{0});
  field("frontend", line.frontend, "");
  field("new", line.new_session, false);
  field("timeout_ms", line.timeout_ms, 0);
  field("answered", line.answered_ns, int64_t{0});
  field("reason", line.reason, "");
}

// Struct to JSON.
class Printer {
 public:
  template <class Value, class Default>
  void operator()(const char* name, const Value& value, const Default& absent) {
    if (!(value == absent)) json_[name] = ToJson(value);
  }

  template <class Struct>
  static Json Object(const Struct& value) {
    Printer printer;
    printer.json_ = Json::object();
    Fields(value, printer, static_cast<const Struct*>(nullptr));
    return std::move(printer.json_);
  }

 private:
  static Json ToJson(What what) { return NameOf(what); }
  static Json ToJson(const Stat& stat) { return Object(stat); }
  static Json ToJson(const Step& step) { return Object(step); }
  static Json ToJson(const Result& result) { return Object(result); }
  static Json ToJson(const std::optional<Stat>& stat) { return Object(*stat); }
  template <class Value>
  static Json ToJson(const std::vector<Value>& values) {
    Json json = Json::array();
    for (const Value& value : values) json.push_back(ToJson(value));
    return json;
  }
  template <class Value>
  static Json ToJson(const Value& value) {
    return value;
  }

  Json json_;
};

// JSON to struct. Remembers the first field with an error.
class Parser {
 public:
  template <class Value, class Default>
  void operator()(const char* name, Value& value, const Default&) {
    const auto found = json_->find(name);
    if (found != json_->end() && !From(*found, &value) && wrong_.empty()) wrong_ = name;
  }

  // Returns the name of the field with an error, or an empty string.
  template <class Struct>
  static std::string Object(const Json& json, Struct* value) {
    if (!json.is_object()) return "(no object)";
    Parser parser;
    parser.json_ = &json;
    Fields(*value, parser, static_cast<const Struct*>(nullptr));
    return parser.wrong_;
  }

 private:
  static bool From(const Json& json, int64_t* value) {
    if (!json.is_number_integer()) return false;
    *value = json.get<int64_t>();
    return true;
  }
  static bool From(const Json& json, int32_t* value) {
    int64_t wide = 0;
    if (!From(json, &wide) || wide < INT32_MIN || wide > INT32_MAX) return false;
    *value = static_cast<int32_t>(wide);
    return true;
  }
  static bool From(const Json& json, bool* value) {
    if (!json.is_boolean()) return false;
    *value = json.get<bool>();
    return true;
  }
  static bool From(const Json& json, std::string* value) {
    if (!json.is_string()) return false;
    *value = json.get_ref<const std::string&>();
    return true;
  }
  static bool From(const Json& json, What* value) {
    if (!json.is_string()) return false;
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (kNames[i] != json.get_ref<const std::string&>()) continue;
      *value = static_cast<What>(i);
      return true;
    }
    return false;
  }
  static bool From(const Json& json, Stat* value) { return Object(json, value).empty(); }
  static bool From(const Json& json, Step* value) { return Object(json, value).empty(); }
  static bool From(const Json& json, Result* value) { return Object(json, value).empty(); }
  static bool From(const Json& json, std::optional<Stat>* value) {
    return From(json, &value->emplace());
  }
  template <class Value>
  static bool From(const Json& json, std::vector<Value>* values) {
    if (!json.is_array()) return false;
    values->resize(json.size());
    for (size_t i = 0; i < json.size(); ++i) {
      if (!From(json[i], &(*values)[i])) return false;
    }
    return true;
  }

  const Json* json_ = nullptr;
  std::string wrong_;
};

absl::Status FileError(const char* doing, const std::string& path) {
  return absl::UnknownError(absl::StrCat("cannot ", doing, " ", path, ": ", std::strerror(errno)));
}

}  // namespace

std::string_view NameOf(What what) { return kNames.at(static_cast<size_t>(what)); }

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string Print(const Line& line) {
  return Printer::Object(line).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Line> Parse(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("this is no JSON");
  Line line;
  const std::string wrong = Parser::Object(json, &line);
  if (!wrong.empty()) return absl::InvalidArgumentError(absl::StrCat("wrong field: ", wrong));
  for (const char* name : {"t", "p", "c", "e"}) {
    if (!json.contains(name)) return absl::InvalidArgumentError(absl::StrCat("no field ", name));
  }
  const bool of_operation = line.what <= What::kUnknown;
  if (of_operation && line.operation < 1) return absl::InvalidArgumentError("no field o");
  return line;
}

absl::StatusOr<std::unique_ptr<HistoryWriter>> HistoryWriter::Open(const std::string& path,
                                                                   int32_t process) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return FileError("write", path);
  return std::unique_ptr<HistoryWriter>(new HistoryWriter(file, process));
}

HistoryWriter::~HistoryWriter() { close(file_); }

void HistoryWriter::Write(Line line) {
  line.process = process_;
  const std::lock_guard lock(mutex_);
  if (line.time_ns == 0) line.time_ns = NowNs();
  const std::string text = Print(line) + '\n';
  const ssize_t written = write(file_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return;
  std::fprintf(stderr, "cannot write the history: %s\n", std::strerror(errno));
  _exit(1);
}

int64_t HistoryWriter::NextOperation() {
  const std::lock_guard lock(mutex_);
  return ++operations_;
}

absl::StatusOr<std::unique_ptr<HistoryReader>> HistoryReader::Open(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return FileError("read", path);
  return std::unique_ptr<HistoryReader>(new HistoryReader(file, path));
}

HistoryReader::~HistoryReader() {
  std::fclose(file_);
  std::free(buffer_);
}

absl::StatusOr<bool> HistoryReader::Next(Line* line) {
  const ssize_t size = getline(&buffer_, &capacity_, file_);
  if (size < 0) {
    if (std::ferror(file_) != 0) return FileError("read", path_);
    return false;
  }
  if (buffer_[size - 1] != '\n') return false;
  text_ = std::string_view(buffer_, static_cast<size_t>(size) - 1);
  ++line_number_;
  offset_ = next_offset_;
  next_offset_ += size;
  absl::StatusOr<Line> parsed = Parse(text_);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", line_number_, ": ", parsed.status().message()));
  }
  *line = *std::move(parsed);
  return true;
}

}  // namespace quorate::chaos

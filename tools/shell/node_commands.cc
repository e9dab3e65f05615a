// SPDX-License-Identifier: Apache-2.0

// The commands on single znodes: ls, get, set, create, delete, stat, sync.

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "tools/shell/command.h"
#include "tools/shell/printing.h"
#include "tools/shell/shell.h"
#include "tools/shell/walk.h"

namespace quorate::tools::shell {
namespace {

// The most bytes of data in a gRPC request, besides its path and other fields.
constexpr size_t kDataBytesMax = (size_t{8} << 20) - 4096;

absl::Status Usage(const Invocation& invocation, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(why, "\nusage: ", UsageOf(invocation.command())));
}

void PutStat(const Stat& stat, Invocation& invocation) {
  if (invocation.Has('s')) invocation.Line(ToText(stat));
  invocation.json()["stat"] = ToJson(stat);
}

absl::Status ListSubtree(Invocation& invocation) {
  auto& paths = invocation.json()["paths"] = nlohmann::ordered_json::array();
  return WalkSubtree(invocation.client(), invocation.path(), [&](const std::string& path) {
    invocation.Line(path);
    if (invocation.shell().options().json) paths.push_back(path);
  });
}

absl::Status Ls(Invocation& invocation) {
  if (invocation.Has('R')) {
    if (invocation.Has('s') || invocation.Has('w')) {
      return Usage(invocation, "-R cannot be combined with other options");
    }
    return ListSubtree(invocation);
  }
  auto list = invocation.client().List(invocation.path());
  if (!list.ok()) return list.status();
  if (invocation.Has('w')) {
    if (absl::Status s = invocation.shell().watches().Add(invocation.client(), invocation.path(),
                                                          WatchKind::kChildren, list->zxid);
        !s.ok()) {
      return s;
    }
  }
  invocation.Line(ListText(list->children));
  invocation.json()["children"] = list->children;
  PutStat(list->stat, invocation);
  return absl::OkStatus();
}

absl::Status Get(Invocation& invocation) {
  auto read = invocation.client().Get(invocation.path());
  if (!read.ok()) return read.status();
  if (invocation.Has('w')) {
    if (absl::Status s = invocation.shell().watches().Add(invocation.client(), invocation.path(),
                                                          WatchKind::kData, read->zxid);
        !s.ok()) {
      return s;
    }
  }
  invocation.Line(read->data);
  PutData(read->data, &invocation.json());
  PutStat(read->stat, invocation);
  return absl::OkStatus();
}

// Reads all of `file`; "-" is standard input. INVALID_ARGUMENT says why the content cannot be the
// data of a znode.
absl::StatusOr<std::string> ReadData(const Invocation& invocation, const std::string& file) {
  const bool is_stdin = file == "-";
  if (is_stdin && invocation.shell().options().has_commands_on_stdin) {
    return Usage(invocation,
                 "standard input has the commands; `--file -` goes with a command behind "
                 "`quorate shell --`");
  }
  const std::string name = is_stdin ? "standard input" : file;
  errno = 0;
  std::ifstream opened;
  if (!is_stdin) opened.open(file, std::ios::binary);
  std::istream& input = is_stdin ? std::cin : opened;
  std::string data(kDataBytesMax + 1, '\0');
  if (input) input.read(data.data(), static_cast<std::streamsize>(data.size()));
  if (input.bad() || (!is_stdin && !opened.is_open())) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": cannot be read: ", std::strerror(errno)));
  }
  data.resize(static_cast<size_t>(input.gcount()));
  if (data.size() > kDataBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": more than ", kDataBytesMax,
        " bytes, which no server takes in one request, whatever its jute.maxbuffer is"));
  }
  return data;
}

// Returns the data: the content of the file that -f names, otherwise argument 1; nothing if neither
// was given.
absl::StatusOr<std::optional<std::string>> DataOf(const Invocation& invocation) {
  if (!invocation.Has('f')) return invocation.argument(1);
  auto data = ReadData(invocation, invocation.Value('f'));
  if (!data.ok()) return data.status();
  return std::optional<std::string>(*std::move(data));
}

// Returns `status` of a write of `size` bytes of data to `path`. If the servers rejected the write
// as too large, the message says what was too large, and the limit of the server that rejected it.
absl::Status WithSize(const absl::Status& status, const std::string& path, size_t size) {
  if (ErrorOf(status) != ErrorCode::kTooLarge) return status;
  // A server of an earlier version does not send its limit.
  const int64_t limit = DataBytesMaxOf(status).value_or(0);
  const bool data_fit = limit > 0 && size <= static_cast<size_t>(limit);
  const std::string why =
      data_fit ? "the access control list has more than 256 entries or 64 KiB"
               : absl::StrCat(size, " bytes of data are more than ",
                              limit > 0 ? absl::StrCat("the ", limit, " that ") : "",
                              "the servers take (jute.maxbuffer in zoo.cfg, the same on all "
                              "servers)");
  absl::Status with_size(status.code(), absl::StrCat("Too large: ", path, ": ", why));
  status.ForEachPayload([&with_size](absl::string_view url, const absl::Cord& payload) {
    with_size.SetPayload(url, payload);
  });
  return with_size;
}

absl::Status Set(Invocation& invocation) {
  const auto version = invocation.Version();
  if (!version.ok()) return version.status();
  const auto data = DataOf(invocation);
  if (!data.ok()) return data.status();
  if (!data->has_value()) return Usage(invocation, "the data is missing");
  if (invocation.Has('f') && invocation.argument(1).has_value()) {
    return Usage(invocation, "the data is given twice: as an argument, and with --file");
  }
  auto stat = invocation.client().Set(invocation.path(), **data, {.version = *version});
  if (!stat.ok()) return WithSize(stat.status(), invocation.path(), (*data)->size());
  PutStat(*stat, invocation);
  return absl::OkStatus();
}

absl::StatusOr<CreateMode> ModeOf(const Invocation& invocation, bool has_ttl) {
  const bool is_ephemeral = invocation.Has('e');
  const bool is_sequential = invocation.Has('s');
  if (invocation.Has('c')) {
    if (is_ephemeral || is_sequential || has_ttl) {
      return Usage(invocation, "-c cannot be combined with -s, -e or -t");
    }
    return CreateMode::kContainer;
  }
  if (has_ttl) {
    if (is_ephemeral) return Usage(invocation, "TTLs cannot be used with Ephemeral znodes");
    return is_sequential ? CreateMode::kPersistentSequentialWithTtl
                         : CreateMode::kPersistentWithTtl;
  }
  if (is_ephemeral) {
    return is_sequential ? CreateMode::kEphemeralSequential : CreateMode::kEphemeral;
  }
  return is_sequential ? CreateMode::kPersistentSequential : CreateMode::kPersistent;
}

absl::Status Create(Invocation& invocation) {
  constexpr int64_t kTtlMaxMs = 1099511627775;
  const auto ttl = invocation.Number('t');
  if (!ttl.ok()) return ttl.status();
  if (ttl->has_value() && (**ttl <= 0 || **ttl > kTtlMaxMs)) {
    return Usage(invocation,
                 absl::StrCat("ttl must be positive and cannot be larger than: ", kTtlMaxMs));
  }
  const auto mode = ModeOf(invocation, ttl->has_value());
  if (!mode.ok()) return mode.status();
  CreateOptions options;
  options.mode = *mode;
  options.ttl_ms = ttl->value_or(0);
  options.create_parents = invocation.Has('p');
  const size_t acl_index = invocation.Has('f') ? 1 : 2;
  if (invocation.argument(acl_index + 1).has_value()) {
    return Usage(invocation, "the data is given twice: as an argument, and with --file");
  }
  if (const auto text = invocation.argument(acl_index)) {
    auto acl = ParseAcls(*text);
    if (!acl.ok()) return acl.status();
    options.acl = *std::move(acl);
  }
  const auto data = DataOf(invocation);
  if (!data.ok()) return data.status();
  const std::string bytes = data->value_or("");
  // Uses the path as typed, because the name of a sequential znode may be empty.
  auto created = invocation.client().Create(invocation.arguments()[0], bytes, options);
  if (!created.ok()) return WithSize(created.status(), invocation.path(), bytes.size());
  if (invocation.Has('e')) invocation.shell().ephemerals().insert(created->path);
  invocation.Line("Created " + created->path);
  invocation.json()["created"] = created->path;
  invocation.json()["stat"] = ToJson(created->stat);
  return absl::OkStatus();
}

absl::Status Delete(Invocation& invocation) {
  const auto version = invocation.Version();
  if (!version.ok()) return version.status();
  return invocation.client().Delete(invocation.path(), {.version = *version}).status();
}

absl::Status StatOf(Invocation& invocation) {
  if (invocation.Has('w')) {
    // Sets the watch before the read, because the znode need not exist.
    if (absl::Status s = invocation.shell().watches().Add(invocation.client(), invocation.path(),
                                                          WatchKind::kData, 0);
        !s.ok()) {
      return s;
    }
  }
  auto stat = invocation.client().Exists(invocation.path());
  if (!stat.ok()) return stat.status();
  if (!stat->has_value()) {
    return absl::NotFoundError("Node does not exist: " + invocation.path());
  }
  invocation.Line(ToText(**stat));
  invocation.json()["stat"] = ToJson(**stat);
  return absl::OkStatus();
}

absl::Status Sync(Invocation& invocation) {
  if (absl::Status s = invocation.client().Sync(); !s.ok()) return s;
  invocation.Line("Sync is OK");
  return absl::OkStatus();
}

}  // namespace

std::vector<Command> NodeCommands() {
  const Option with_stat = {'s', "", "print the metadata of the znode, too"};
  const Option with_file = {'f', "file", "use the content of this file as data; -: standard input",
                            "file"};
  return {
      {.name = "ls",
       .options = {with_stat,
                   {'w', "", "watch: print the next change of the list"},
                   {'R', "", "print the paths of all znodes below it, level by level"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Lists the children of a znode",
       .details = "",
       .example = "ls /\nls -R /app",
       .run = Ls},
      {.name = "get",
       .options = {with_stat, {'w', "", "watch: print the next change of the znode"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Prints the data of a znode",
       .details = "",
       .example = "get -s /app/config",
       .run = Get},
      {.name = "set",
       .options = {with_stat,
                   with_file,
                   {'v', "version", "only if this is its version (dataVersion of stat)"}},
       .arguments = "path [data]",
       .arguments_min = 1,
       .arguments_max = 2,
       .summary = "Replaces the data of a znode",
       .details = "",
       .example = "set /app/config \"two words\"\nset -v 3 /app/config new\n"
                  "set /app/config --file config.json",
       .run = Set},
      {.name = "create",
       .options = {{'s', "", "sequential: ten digits are appended to the name"},
                   {'e', "", "ephemeral: it is deleted at the end of this session"},
                   {'c', "", "container: it is deleted some time after its last child was"},
                   {'t', "ttl",
                    "it is removed after that many milliseconds without children and "
                    "changes"},
                   {'p', "", "create missing ancestors, too"},
                   with_file},
       .arguments = "path [data] [acl]",
       .arguments_min = 1,
       .arguments_max = 3,
       .summary = "Creates a znode",
       .details = "With --file, there is no data between the path and the access control list.\n"
                  "An access control list looks like world:anyone:r,auth::cdrwa (`help setAcl`).\n"
                  "Without one, all clients may do everything.",
       .example = "create /app/config first\ncreate -e -s /app/workers/worker- 10.0.0.7",
       .run = Create},
      {.name = "delete",
       .options = {{'v', "version", "only if this is its version (dataVersion of stat)"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Deletes a znode that has no children",
       .details = "",
       .example = "delete /app/config",
       .run = Delete},
      {.name = "stat",
       .options = {{'w', "", "watch: print the next change; the znode need not exist"}},
       .arguments = "path",
       .arguments_min = 1,
       .arguments_max = 1,
       .summary = "Prints the metadata of a znode",
       .details = "",
       .example = "stat /app/config",
       .run = StatOf},
      {.name = "sync",
       .options = {},
       .arguments = "path",
       .arguments_min = 0,
       .arguments_max = 1,
       .summary = "Makes later reads see every write that was acknowledged to any client",
       .details = "It applies to the whole tree. A path is accepted, as by zkCli.sh.",
       .example = "sync /app",
       .run = Sync},
  };
}

}  // namespace quorate::tools::shell

// SPDX-License-Identifier: Apache-2.0

#include "rpc/config/config.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/strings.h"
#include "rpc/config/config_keys.h"
#include "rpc/config/config_value.h"
#include "rpc/config/java_options.h"
#include "rpc/config/property_lines.h"

namespace quorate::rpc {
namespace {

constexpr char kPrometheusProvider[] =
    "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
constexpr char kDefaultProvider[] = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider";
constexpr char kNullProvider[] = "org.apache.zookeeper.metrics.impl.NullMetricsProvider";
constexpr char kUrlCharacters[] =
    "/ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
constexpr char kProviderPrefix[] = "authProvider.";

// Returns whether this server implements the authentication provider with that ZooKeeper class
// name.
bool IsBuiltInProvider(absl::string_view java_class) {
  constexpr absl::string_view kPackage = "org.apache.zookeeper.server.auth.";
  return absl::ConsumePrefix(&java_class, kPackage) &&
         (java_class == "DigestAuthenticationProvider" ||
          java_class == "IPAuthenticationProvider" || java_class == "SASLAuthenticationProvider" ||
          java_class == "X509AuthenticationProvider");
}

constexpr char kJavaJaasKey[] = "java.security.auth.login.config";
constexpr char kJavaRevocationKey[] = "com.sun.net.ssl.checkRevocation";
// Properties of ZooKeeper's scripts, log files and JMX, which no server reads.
constexpr absl::string_view kScriptProperties[] = {"auditlog.", "console.",    "jmx.",
                                                   "log.",      "root.logger", "tracelog."};

// Returns whether ZooKeeper's scripts, or their log files, have this property.
bool IsScriptProperty(std::string_view name) {
  return std::any_of(
      std::begin(kScriptProperties), std::end(kScriptProperties),
      [name](absl::string_view prefix) { return absl::StartsWith(ToAbsl(name), prefix); });
}

// Returns whether a server without this key protects less than one with it.
bool IsProtection(const ConfigKey& key) {
  if (key.section == Section::kTls || key.section == Section::kMemberTls ||
      key.section == Section::kSasl) {
    return true;
  }
  const absl::string_view name = ToAbsl(key.name);
  return absl::StartsWith(name, "grpcTls") || absl::StartsWith(name, "administrator") ||
         absl::StartsWith(name, "secureClientPort") || absl::StartsWith(name, "limits.");
}

// Returns whether the value of a key asks for what is so without the key.
bool IsSwitchedOff(const ConfigKey& key, absl::string_view value) {
  return std::holds_alternative<Boolean>(key.value) && absl::EqualsIgnoreCase(value, "false");
}

// The maximum size in bytes of a configuration file, or of a file that it names. A larger file is
// named by mistake (a device, a log).
constexpr size_t kFileBytesMax = 4 << 20;
// The bytes of a reply in addition to the data of a znode.
constexpr int kReplyOverheadBytes = 1024;

// Returns whether the file is in the directory or below it, by their names.
bool IsInside(const std::string& file, const std::string& directory) {
  const auto plain = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::absolute(path, ignored).lexically_normal().string();
  };
  std::string outer = plain(directory);
  if (!absl::EndsWith(outer, "/")) outer += '/';
  return absl::StartsWith(plain(file), outer);
}

class Parser {
 public:
  Parser(const std::string& file, ReadFile read_file) : read_file_(read_file), file_(file) {
    config_.file = file;
    config_.heartbeat_ms = 0;  // 0 while it is not given
  }

  // Takes the properties in the options for a Java machine, which are the words -Dkey=value. Those of
  // the file come later, and so take precedence.
  absl::Status TakeJavaOptions(absl::string_view options) {
    const std::string file =
        std::exchange(file_, "the environment (JVMFLAGS, SERVER_JVMFLAGS, JAVA_OPTS)");
    for (const auto& [key, value] : JavaProperties(ToStd(options))) {
      if (absl::Status s = TakeJavaProperty(key, value); !s.ok()) return s;
    }
    file_ = file;
    return absl::OkStatus();
  }

  absl::StatusOr<Config> Parse(std::string_view text) {
    constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
    absl::string_view settings(text.data(), text.size());
    if (absl::ConsumePrefix(&settings, kByteOrderMark)) {
      config_.warnings.push_back(absl::StrCat(
          file_, ": the file begins with a byte order mark, which is skipped; save it without"));
    }
    if (absl::Status s = ParseText(settings); !s.ok()) return s;
    if (absl::Status s = ReadMembers(); !s.ok()) return s;
    if (absl::Status s = Finish(); !s.ok()) return WithUnknownKeys(s);
    return std::move(config_);
  }

 private:
  absl::Status TakeJavaProperty(const std::string& key, const std::string& value) {
    // Most properties have the prefix. Others are options of Java itself.
    const bool is_ours = WithoutPropertyPrefix(key) != key || key == "jute.maxbuffer" ||
                         key == "readonlymode.enabled";
    if (key == kJavaJaasKey) {
      TakeJaasFile(value);
      return absl::OkStatus();
    }
    if (key == kJavaRevocationKey) {
      asks_for_revocation_ = absl::EqualsIgnoreCase(value, "true");
      return absl::OkStatus();
    }
    if (!is_ours) return absl::OkStatus();
    if (TakeAuthKey(key, value)) return absl::OkStatus();
    if (TakeAuditProperty(key, value)) return absl::OkStatus();
    const ConfigKey* known = FindConfigKey(key);
    if (known != nullptr && known->is_property) return Set(key, known->value, value);
    if (absl::Status s = CheckProtection(key, value); !s.ok()) return s;
    return CheckOtherProperty(key, value);
  }

  // Checks a property with ZooKeeper's prefix that has no effect, so that nobody relies on it.
  absl::Status CheckOtherProperty(const std::string& key, const std::string& value) {
    const std::string name(WithoutPropertyPrefix(key));
    const ConfigKey* of_file = FindConfigKey(name);
    if (of_file == nullptr) {
      const bool is_known = FindProtectionKey(key) != nullptr || FindIgnoredKey(key) != nullptr ||
                            name.starts_with(kProviderPrefix) || IsScriptProperty(name);
      if (!is_known) WarnUnknown(key);
      return absl::OkStatus();
    }
    constexpr char kProblem[] = "it is no property, but a key of the configuration file";
    if (IsProtection(*of_file) && !IsSwitchedOff(*of_file, value)) {
      return Error(key, absl::StrCat(kProblem, "; write ", name, " there"));
    }
    Warn(key, absl::StrCat("has no effect: ", kProblem, "; write ", name, " there"));
    return absl::OkStatus();
  }

  // Takes the properties that ZooKeeper's configuration of log files has for the audit log. Returns
  // false if the key is none of them.
  bool TakeAuditProperty(const std::string& key, const std::string& value) {
    std::string* to = key == "zookeeper.log.dir"              ? &log_files_dir_
                      : key == "zookeeper.auditlog.file"      ? &audit_name_
                      : key == "zookeeper.auditlog.threshold" ? &audit_threshold_
                                                              : nullptr;
    if (to != nullptr) *to = value;
    return to != nullptr;
  }

  // Completes the settings of the audit log.
  absl::Status FinishAudit() {
    if (!config_.audit) return absl::OkStatus();
    const std::string threshold = absl::AsciiStrToUpper(audit_threshold_);
    config_.audit_failures_only = threshold == "ERROR" || threshold == "WARN";
    const bool takes_all = threshold.empty() || threshold == "INFO" || threshold == "DEBUG" ||
                           threshold == "TRACE" || threshold == "ALL";
    if (!takes_all && !config_.audit_failures_only) {
      return absl::InvalidArgumentError(
          absl::StrCat("zookeeper.auditlog.threshold (JVMFLAGS, SERVER_JVMFLAGS, JAVA_OPTS): \"",
                       audit_threshold_,
                       "\" is not allowed; it has to be INFO (all lines) or ERROR "
                       "(failures only); without an audit log, set audit.enable=false"));
    }
    if (config_.audit_file.empty()) {
      if (absl::Status s = NameAuditFile(); !s.ok()) return s;
    }
    for (const std::string& directory : {config_.data_dir, config_.log_dir}) {
      // A directory with other files is not taken for the data of a new server.
      if (!IsInside(config_.audit_file, directory)) continue;
      return Error("auditFile", absl::StrCat(config_.audit_file, " is inside ", directory,
                                             ", which holds data only; name another directory"));
    }
    return absl::OkStatus();
  }

  // Sets the name of the audit log, if the configuration has none.
  absl::Status NameAuditFile() {
    if (!absl::StartsWith(audit_name_, "/")) {
      if (log_files_dir_.empty()) {
        return Error("auditFile",
                     "it is missing: audit.enable needs a file to write; give its path here, or a "
                     "directory of log files in the environment variable ZOO_LOG_DIR");
      }
      config_.audit_file = absl::StrCat(log_files_dir_, "/");
    }
    absl::StrAppend(&config_.audit_file, audit_name_);
    return absl::OkStatus();
  }

  absl::Status ParseText(absl::string_view text) {
    for (int count = 0; !text.empty();) {
      line_ = count + 1;
      const std::string line = NextPropertyLine(&text, &count);
      if (line.empty()) continue;
      if (absl::Status s = ParseLine(line); !s.ok()) return s;
    }
    line_ = 0;
    return absl::OkStatus();
  }

  // Reads the file that dynamicConfigFile names. ZooKeeper since 3.5 moves the server lines there
  // when members are changed at run time.
  absl::Status ReadMembers() {
    if (config_.members_file.empty()) return absl::OkStatus();
    if (!config_.servers.empty()) {
      return Error("dynamicConfigFile",
                   absl::StrCat("the members are in ", config_.members_file,
                                "; server.N lines belong there, or take this key out"));
    }
    absl::StatusOr<std::string> text = read_file_(config_.members_file);
    if (!text.ok()) {
      return Error("dynamicConfigFile",
                   absl::StrCat(config_.members_file, " cannot be read: ", text.status().message(),
                                "; it has to have the server.N lines "
                                "(or put them here, and remove this key)"));
    }
    file_ = config_.members_file;
    if (absl::Status s = ParseText(*text); !s.ok()) return s;
    if (config_.servers.empty()) {
      return Error("server.N", "there is no such line; this file has to name the members");
    }
    file_ = config_.file;
    return absl::OkStatus();
  }

  absl::Status Error(absl::string_view key, absl::string_view problem) const {
    std::string place = file_;
    if (line_ > 0) absl::StrAppend(&place, ":", line_);
    if (!key.empty()) absl::StrAppend(&place, ": ", key);
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", problem));
  }

  absl::Status ParseLine(absl::string_view line) {
    const size_t end = PropertyKeyEnd(line);
    if (end == absl::string_view::npos) {
      // The line is not shown: it may be a part of a password.
      return Error("", "not a setting; a line is key=value, or a comment that starts with #");
    }
    absl::string_view rest = absl::StripLeadingAsciiWhitespace(line.substr(end));
    if (absl::StartsWith(rest, "=") || absl::StartsWith(rest, ":")) rest.remove_prefix(1);
    std::string key, value;
    if (!UnescapeProperty(line.substr(0, end), &key) ||
        !UnescapeProperty(absl::StripAsciiWhitespace(rest), &value)) {
      return Error(line.substr(0, end),
                   "\\u is not read here; write the character itself, in UTF-8");
    }
    if (absl::StartsWith(key, "server.")) return ParseServer(key, value);
    if (absl::StartsWith(key, "weight.") || absl::StartsWith(key, "group.")) {
      return ParseQuorum(key, value);
    }
    if (file_ != config_.file) {
      if (key == "version") return absl::OkStatus();  // ZooKeeper writes it; not used here
      return Error(key, absl::StrCat("it does not belong here, but in ", config_.file));
    }
    return ParseSetting(key, value);
  }

  // Accepts only quorum settings in which each participant has one vote.
  absl::Status ParseQuorum(const std::string& key, const std::string& value) {
    if (absl::StartsWith(key, "weight.") && value == "1") return absl::OkStatus();
    return Error(
        key,
        "all participants count alike, and there are no groups of them; remove the weight.N and "
        "group.N lines, and make those observers that are not to count");
  }

  absl::Status CheckProtection(absl::string_view key, const std::string& value) {
    const std::string_view name = WithoutPropertyPrefix(ToStd(key));
    if (name.starts_with(kProviderPrefix) && !IsBuiltInProvider(value)) {
      return Unsupported(name, value,
                         "clients authenticate with the schemes digest, ip, sasl and x509 only");
    }
    const ProtectionKey* known = FindProtectionKey(ToStd(key));
    if (known == nullptr || absl::EqualsIgnoreCase(value, ToAbsl(known->harmless))) {
      return absl::OkStatus();
    }
    // The value of an unknown key may be a password whose key is misspelt.
    if (known == &UnknownTls()) return UnknownProtection(name, known->missing);
    return Unsupported(name, value, known->missing);
  }

  absl::Status UnknownProtection(std::string_view key, std::string_view missing) const {
    return Error(ToAbsl(key), absl::StrCat("unsupported value: ", ToAbsl(missing),
                                           SimilarKeysHint(std::string(key)),
                                           "; correct it, or remove the key to run without it"));
  }

  static std::string SimilarKeysHint(const std::string& key) {
    const std::vector<std::string> similar = SimilarKeys(key);
    return similar.empty() ? ""
                           : absl::StrCat("; did you mean ", absl::StrJoin(similar, " or "), "?");
  }

  absl::Status Unsupported(std::string_view key, const std::string& value,
                           std::string_view missing) {
    return Error(
        ToAbsl(key),
        absl::StrCat("unsupported value", IsSecretKey(key) ? "" : absl::StrCat(" \"", value, "\""),
                     ": ", ToAbsl(missing), "; remove the key to run without it"));
  }

  absl::Status Set(const std::string& key, const Value& value, const std::string& text) {
    const absl::Status status = SetValue(value, text, &config_);
    if (WithoutPropertyPrefix(key) == "memberSecretRequired") {
      requires_secret_ = config_.member_secret_required;
    }
    if (status.ok()) return status;
    const bool is_hidden = IsSecretKey(key) && !text.empty();
    return Error(key, is_hidden ? "the value is not allowed" : status.message());
  }

  // Takes the name of a JAAS file as Java writes it: a second = stands before a file that takes the
  // place of others, and a URL is allowed.
  void TakeJaasFile(absl::string_view value) {
    absl::ConsumePrefix(&value, "=");
    absl::ConsumePrefix(&value, "file:");
    config_.jaas_file = std::string(value);
  }

  // Takes a key that has a part in several fields, or in none. Returns false if `key` is another
  // one, or has a value that is not allowed.
  bool TakeAuthKey(absl::string_view key, const std::string& value) {
    const std::string_view name = WithoutPropertyPrefix(ToStd(key));
    bool* flag = name == "enforce.auth.enabled"           ? &enforces_auth_
                 : name == "sessionRequireClientSASLAuth" ? &requires_sasl_
                                                          : nullptr;
    if (flag != nullptr) return absl::SimpleAtob(value, flag);
    if (name == "superUser" || name.starts_with("superUser.")) {
      if (!value.empty()) super_users_[std::string(name)] = value;
      return !value.empty();
    }
    if (name == "requireClientAuthScheme" && value == "sasl") {
      requires_sasl_ = true;
      Warn(key,
           "clients have to authenticate by SASL, as with sessionRequireClientSASLAuth=true; "
           "ZooKeeper ignores this key, and lets all clients in");
      return true;
    }
    if (!name.starts_with(kProviderPrefix) || !IsBuiltInProvider(value)) return false;
    config_.sasl_acl_scheme |= absl::EndsWith(value, ".SASLAuthenticationProvider");
    has_x509_provider_ |= absl::EndsWith(value, ".X509AuthenticationProvider");
    return true;
  }

  absl::Status ParseSetting(const std::string& key, const std::string& value) {
    if (key == kJavaJaasKey) {
      TakeJaasFile(value);
      return absl::OkStatus();
    }
    if (TakeAuthKey(key, value)) return absl::OkStatus();
    if (key == kLogFormatKey) {
      if (value == "text" || value == "json") return absl::OkStatus();
      return Error(key, absl::StrCat("\"", value, "\" is not allowed; it has to be text or json"));
    }
    if (const ConfigKey* known = FindConfigKey(key)) return Set(key, known->value, value);
    if (absl::Status s = CheckProtection(key, value); !s.ok()) return s;
    if (absl::StartsWith(key, kProviderPrefix) || FindProtectionKey(key) != nullptr) {
      return absl::OkStatus();
    }
    const IgnoredKey* ignored = FindIgnoredKey(key);
    if (ignored == nullptr) {
      WarnUnknown(key);
      return absl::OkStatus();
    }
    // Checks the value, because the key may have an effect in a later version.
    if (ignored->name == key) {
      if (absl::Status s = Set(key, ignored->value, value); !s.ok()) return s;
    }
    Warn(key, absl::StrCat("has no effect: ", ToAbsl(ignored->why)));
    return absl::OkStatus();
  }

  void WarnUnknown(const std::string& key) {
    Warn(key,
         absl::StrCat("not a key that this server knows; it has no effect", SimilarKeysHint(key)));
    absl::StrAppend(&unknown_keys_, "; ", config_.warnings.back());
  }

  // Returns `error` followed by the unknown keys, because one of them may be a misspelling of the
  // missing one.
  absl::Status WithUnknownKeys(const absl::Status& error) const {
    return absl::Status(error.code(), absl::StrCat(error.message(), unknown_keys_));
  }

  void Warn(absl::string_view key, absl::string_view text) {
    const std::string line = line_ > 0 ? absl::StrCat(":", line_) : "";
    config_.warnings.push_back(absl::StrCat(file_, line, ": ", key, ": ", text));
  }

  absl::Status ParseServer(const std::string& key, const std::string& value) {
    const absl::StatusOr<int64_t> id =
        ParseWholeNumber(key.substr(7), 1, 254, " (the N of server.N)");
    if (!id.ok()) return Error(key, id.status().message());
    absl::StatusOr<ServerLine> server = ParseServerLine(value);
    if (!server.ok()) return Error(key, server.status().message());
    if (!config_.servers.emplace(static_cast<uint32_t>(*id), *std::move(server)).second) {
      return Error(key, "there are two lines with this number; remove one");
    }
    return absl::OkStatus();
  }

  absl::Status ReadMyId() {
    const std::string path = config_.data_dir + "/myid";
    absl::StatusOr<std::string> text = read_file_(path);
    if (!text.ok() && !absl::IsNotFound(text.status())) {
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          ": the file with the number of this server cannot be read: ", text.status().message()));
    }
    if (!text.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          config_.file, ": there are server.N lines, but no file ", path,
          "; it has to hold the number of this server (the N of its server.N line) and no more"));
    }
    int id = 0;
    if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &id) || id < 1 || id > 254) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": it has to hold one number from 1 to 254"));
    }
    config_.my_id = static_cast<uint32_t>(id);
    if (config_.servers.count(config_.my_id) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": it says ", id, ", but ", config_.file, " has no line server.", id));
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (config_.data_dir.empty()) return Error("dataDir", "it is missing");
    if (config_.log_dir.empty()) config_.log_dir = config_.data_dir;
    // As in ZooKeeper, a negative maxClientCnxns means no limit, and the least snapCount is 2.
    config_.max_client_connections = std::max(config_.max_client_connections, 0);
    if (config_.snap_count == 1) config_.snap_count = 2;
    // As in ZooKeeper, a single participant is a standalone server.
    if (config_.standalone_enabled && config_.servers.size() == 1 &&
        !config_.servers.begin()->second.observer) {
      const auto [id, own] = *config_.servers.begin();
      config_.servers.clear();
      if (config_.client_port == 0) {
        if (absl::Status s = TakeOwnLine(id, own); !s.ok()) return s;
      }
    }
    if (!config_.servers.empty()) {
      if (absl::Status s = ReadMyId(); !s.ok()) return s;
      if (std::all_of(config_.servers.begin(), config_.servers.end(),
                      [](const auto& server) { return server.second.observer; })) {
        return Error("server", "all are observers; at least one has to be a participant");
      }
      if (absl::Status s = TakeOwnLine(config_.my_id, config_.servers.at(config_.my_id)); !s.ok()) {
        return s;
      }
    }
    if (config_.client_port == 0 && config_.secure_client_port == 0) {
      return Error("clientPort", "it is missing");
    }
    if (absl::Status s = FinishHttp(); !s.ok()) return s;
    if (absl::Status s = CheckPorts(); !s.ok()) return s;
    if (absl::Status s = FinishTls(); !s.ok()) return s;
    if (absl::Status s = FinishMemberTls(); !s.ok()) return s;
    if (absl::Status s = CheckRevocation(); !s.ok()) return s;
    if (absl::Status s = FinishGrpc(); !s.ok()) return s;
    if (absl::Status s = FinishAuth(); !s.ok()) return s;
    if (absl::Status s = FinishAudit(); !s.ok()) return s;
    WarnOfVoters();
    // zkServer.sh sends `srvr` to find out whether the server runs.
    config_.four_letter_words.emplace_back("srvr");
    // Clients in read-only mode send `isro` to find a server that accepts writes.
    if (config_.read_only_mode) config_.four_letter_words.emplace_back("isro");
    return FinishTimes();
  }

  absl::Status CheckPorts() const {
    const std::pair<const char*, uint16_t> ports[] = {
        {"clientPort", config_.client_port},
        {"secureClientPort", config_.secure_client_port},
        {"grpcPort", config_.grpc_port},
        {"admin.serverPort", config_.admin_server ? config_.admin_port : uint16_t{0}},
        {"metricsProvider.httpPort", config_.metrics_server ? config_.metrics_port : uint16_t{0}}};
    for (const auto& one : ports) {
      for (const auto& other : ports) {
        if (&one >= &other || one.second == 0 || one.second != other.second) continue;
        return Error(other.first, absl::StrCat(other.second, " is the ", one.first,
                                               " too; give each a port of its own"));
      }
    }
    for (auto one = config_.servers.begin(); one != config_.servers.end(); ++one) {
      for (auto other = std::next(one); other != config_.servers.end(); ++other) {
        if (one->second.host == other->second.host &&
            one->second.peer_port == other->second.peer_port) {
          return Error(absl::StrCat("server.", other->first),
                       absl::StrCat("server.", one->first, " has the same address, ",
                                    other->second.host, ":", other->second.peer_port,
                                    "; each server needs an address and peer port of its own"));
        }
      }
    }
    return absl::OkStatus();
  }

  // Checks and completes the settings of HTTP and metrics.
  absl::Status FinishHttp() {
    const std::string& provider = config_.metrics_provider;
    config_.metrics_server = provider == kPrometheusProvider;
    if (!provider.empty() && !config_.metrics_server && provider != kDefaultProvider &&
        provider != kNullProvider) {
      return Error(
          "metricsProvider.className",
          absl::StrCat("\"", provider, "\" is not available; there are ", kPrometheusProvider, ", ",
                       kDefaultProvider, " and ", kNullProvider));
    }
    std::string& url = config_.admin_command_url;
    while (url.size() > 1 && url.back() == '/') url.pop_back();
    if (url.size() < 2 || url.front() != '/' ||
        url.find_first_not_of(kUrlCharacters) != std::string::npos) {
      return Error("admin.commandURL",
                   absl::StrCat("\"", url,
                                "\" is not allowed; it has to begin with /, and to have "
                                "only letters, digits and ._-/ after it"));
    }
    const std::string& changes = config_.admin_console_changes;
    if (changes != "none" && changes != "administrators" && changes != "proven" &&
        changes != "users") {
      return Error("admin.console.changes",
                   absl::StrCat("\"", changes,
                                "\" is not allowed; it has to be none, administrators, proven or "
                                "users"));
    }
    if (!config_.admin_server) return absl::OkStatus();
    if (config_.admin_need_client_auth && !config_.has_admin_tls()) {
      return Error(
          "admin.needClientAuth",
          "without HTTPS, nobody is asked for a certificate; set admin.forceHttps=true, or "
          "take admin.needClientAuth out");
    }
    if (!config_.has_admin_tls()) return absl::OkStatus();
    if (config_.admin_need_client_auth && !config_.admin_force_https) {
      config_.warnings.push_back(
          absl::StrCat(config_.file,
                       ": admin.needClientAuth: callers over plain HTTP, which "
                       "admin.portUnification takes too, are not asked for a certificate; set "
                       "admin.forceHttps=true"));
    }
    if (config_.quorum_ssl_key_store.empty()) {
      return Error("ssl.quorum.keyStore.location",
                   "it is missing; HTTPS (admin.forceHttps, admin.portUnification) needs a key and "
                   "a certificate of this server");
    }
    if (config_.admin_need_client_auth && config_.quorum_ssl_trust_store.empty()) {
      return Error("ssl.quorum.trustStore.location",
                   "it is missing; name the authorities of clients' certificates, or take "
                   "admin.needClientAuth out");
    }
    return absl::OkStatus();
  }

  // Checks and completes settings of TLS; `prefix` is that of their keys.
  absl::Status FinishTlsSettings(absl::string_view prefix, std::string* auth,
                                 const std::string& protocol, std::vector<std::string>* protocols,
                                 int* timeout_ms, int default_timeout_ms) const {
    absl::AsciiStrToLower(auth);
    if (auth->empty()) *auth = "need";
    if (*auth != "none" && *auth != "want" && *auth != "need") {
      return Error(absl::StrCat(prefix, "clientAuth"),
                   absl::StrCat("\"", *auth, "\" is not allowed; it has to be none, want or need"));
    }
    if (protocols->empty() && !protocol.empty()) *protocols = {protocol};
    for (const std::string& version : *protocols) {
      if (version == "TLSv1.2" || version == "TLSv1.3") continue;
      return Error(
          absl::StrCat(prefix, "enabledProtocols"),
          absl::StrCat("\"", version, "\" is not allowed; it has to be TLSv1.2 or TLSv1.3"));
    }
    if (*timeout_ms < 1) *timeout_ms = default_timeout_ms;
    return absl::OkStatus();
  }

  // Checks and completes the settings of TLS for clients.
  absl::Status FinishTls() {
    const std::string& auth = config_.ssl_client_auth;
    absl::Status status = FinishTlsSettings(
        "ssl.", &config_.ssl_client_auth, config_.ssl_protocol, &config_.ssl_enabled_protocols,
        &config_.ssl_handshake_detection_timeout_ms, Config().ssl_handshake_detection_timeout_ms);
    if (!status.ok()) return status;
    WarnOfTlsWithoutEffect();
    if (!config_.has_client_tls()) return absl::OkStatus();
    if (config_.client_port_unification && config_.client_port == 0) {
      return Error("client.portUnification", "there is no clientPort; take it out");
    }
    if (config_.ssl_key_store.empty()) {
      return Error("ssl.keyStore.location",
                   "it is missing; TLS needs a key and a certificate of the server");
    }
    if (config_.ssl_trust_store.empty() && auth != "none") {
      return Error("ssl.trustStore.location",
                   "it is missing; name the authorities of clients' certificates, or ask clients "
                   "for none (ssl.clientAuth=none)");
    }
    return absl::OkStatus();
  }

  // Warns of settings of TLS for clients that another setting makes ineffective.
  void WarnOfTlsWithoutEffect() {
    if (!config_.secure_client_address.empty() && config_.secure_client_port == 0) {
      config_.warnings.push_back(
          absl::StrCat(config_.file,
                       ": secureClientPortAddress: it has no effect without secureClientPort, as "
                       "in ZooKeeper; set secureClientPort, or take this key out"));
    }
    if (!config_.ssl_client_hostname_verification || !config_.has_client_tls()) return;
    if (!config_.ssl_hostname_verification) {
      config_.warnings.push_back(
          absl::StrCat(config_.file,
                       ": ssl.clientHostnameVerification: it has no effect, as in ZooKeeper, "
                       "because ssl.hostnameVerification=false; take that key out"));
    } else if (config_.ssl_client_auth != "need") {
      config_.warnings.push_back(
          absl::StrCat(config_.file,
                       ": ssl.clientHostnameVerification: clients without a certificate are not "
                       "checked (ssl.clientAuth=",
                       config_.ssl_client_auth, "); set need"));
    }
  }

  // Checks and completes the settings of TLS and of the secret between servers.
  absl::Status FinishMemberTls() {
    absl::Status status = FinishTlsSettings(
        "ssl.quorum.", &config_.quorum_ssl_client_auth, config_.quorum_ssl_protocol,
        &config_.quorum_ssl_enabled_protocols, &config_.quorum_ssl_handshake_detection_timeout_ms,
        Config().quorum_ssl_handshake_detection_timeout_ms);
    if (!status.ok()) return status;
    if (requires_secret_ && config_.member_secret_file.empty()) {
      return Error("memberSecretRequired",
                   "there is no memberSecretFile; name the file with the secret, or take this key "
                   "out");
    }
    if (!config_.ssl_quorum && !config_.peer_port_unification) return absl::OkStatus();
    if (config_.quorum_ssl_key_store.empty()) {
      return Error(
          "ssl.quorum.keyStore.location",
          "it is missing; TLS between servers (sslQuorum, portUnification) needs a key and "
          "a certificate of this server");
    }
    if (config_.quorum_ssl_trust_store.empty()) {
      return Error("ssl.quorum.trustStore.location",
                   "it is missing; name the authorities of the servers' certificates");
    }
    return absl::OkStatus();
  }

  // Refuses a property of Java that asks for a check of revocation lists on ports that make none.
  absl::Status CheckRevocation() const {
    if (!asks_for_revocation_) return absl::OkStatus();
    const bool has_quorum_stores =
        config_.ssl_quorum || config_.peer_port_unification || config_.has_admin_tls();
    const bool lacks_members = has_quorum_stores && !config_.quorum_ssl_crl;
    const bool lacks_clients = config_.has_client_tls() && !config_.ssl_crl;
    std::string way_out;
    if (config_.grpc_tls) {  // which is refused with ssl.crl
      way_out = "gRPC checks none: remove grpcTls, or take the property out";
    } else if (lacks_clients || lacks_members) {
      way_out = absl::StrCat("set ", lacks_clients ? "ssl.crl" : "ssl.quorum.crl",
                             "=true, or take it out");
    } else {
      return absl::OkStatus();
    }
    return Error(kJavaRevocationKey,
                 absl::StrCat("the property (JVMFLAGS, SERVER_JVMFLAGS, JAVA_OPTS) does not switch "
                              "the check of revocation lists on; ",
                              way_out));
  }

  // Checks and completes the settings of gRPC and of administrators.
  absl::Status FinishGrpc() {
    std::string& auth = config_.grpc_tls_client_auth;
    absl::AsciiStrToLower(&auth);
    if (auth.empty()) auth = config_.ssl_client_auth;
    if (auth != "none" && auth != "want" && auth != "need") {
      return Error("grpcTlsClientAuth",
                   absl::StrCat("\"", auth, "\" is not allowed; it has to be none, want or need"));
    }
    if (!config_.grpc_unix_socket.empty() && config_.grpc_unix_socket.front() != '/') {
      return Error("grpcUnixSocket", absl::StrCat("\"", config_.grpc_unix_socket,
                                                  "\" is not allowed; it has to begin with /"));
    }
    if (!config_.grpc_tls) return absl::OkStatus();
    if (config_.grpc_port == 0) {
      return Error("grpcTls", "there is no grpcPort; set it, or take grpcTls out");
    }
    if (config_.ssl_key_store.empty()) {
      return Error("ssl.keyStore.location",
                   "it is missing; grpcTls needs a key and a certificate of the server");
    }
    if (config_.ssl_trust_store.empty() && auth != "none") {
      return Error("ssl.trustStore.location",
                   "it is missing; name the authorities of gRPC clients' certificates, or ask "
                   "clients for none (grpcTlsClientAuth=none)");
    }
    return RefuseWeakerGrpc();
  }

  // Refuses settings of TLS that gRPC cannot keep to, with which its port would be weaker than the
  // configuration asks.
  absl::Status RefuseWeakerGrpc() const {
    if (config_.ssl_crl && config_.grpc_tls_client_auth != "none") {
      return Error("ssl.crl",
                   "gRPC does not check revocation lists, so that grpcPort would take certificates "
                   "that are revoked; take grpcTls or ssl.crl out, or ask gRPC clients for no "
                   "certificate (grpcTlsClientAuth=none)");
    }
    if (config_.checks_client_addresses() && config_.grpc_tls_client_auth != "none") {
      return Error("ssl.clientHostnameVerification",
                   "gRPC does not compare a client's address with its certificate; take grpcTls or "
                   "ssl.clientHostnameVerification out, or ask gRPC clients for no certificate "
                   "(grpcTlsClientAuth=none)");
    }
    const std::vector<std::string>& protocols = config_.ssl_enabled_protocols;
    const auto has = [&protocols](const char* protocol) {
      return std::find(protocols.begin(), protocols.end(), protocol) != protocols.end();
    };
    if (!protocols.empty() && (!has("TLSv1.2") || !has("TLSv1.3"))) {
      return Error(
          "ssl.enabledProtocols",
          absl::StrCat("gRPC takes both TLSv1.2 and TLSv1.3, not ", absl::StrJoin(protocols, ","),
                       " alone; take grpcTls, or ssl.enabledProtocols and ssl.protocol, "
                       "out, or allow both"));
    }
    return absl::OkStatus();
  }

  // Checks and completes the super users of SASL, and the schemes that clients have to authenticate
  // with.
  absl::Status FinishAuth() {
    for (const auto& [key, user] : super_users_) config_.sasl_super_users.push_back(user);
    // The tree lets the id super pass every entry of the scheme sasl.
    if (config_.sasl_any_user_id == "super") {
      return Error("letAnySaslUserDoX",
                   "every SASL user would pass every list with an entry of the scheme sasl; name "
                   "another id than super");
    }
    std::vector<std::string>& required = config_.required_auth_schemes;
    const char* key = requires_sasl_ ? "sessionRequireClientSASLAuth" : "enforce.auth.schemes";
    if (requires_sasl_) {
      required = {"sasl"};
    } else if (!enforces_auth_) {
      required.clear();
      return absl::OkStatus();
    } else if (required.empty()) {
      return Error(key,
                   "it is missing; enforce.auth.enabled needs the schemes of which each client has "
                   "to prove one: digest, ip, sasl, x509");
    }
    for (const std::string& scheme : required) {
      const bool is_known = scheme == "digest" || scheme == "ip" ||
                            (scheme == "sasl" && config_.sasl_acl_scheme) ||
                            (scheme == "x509" &&
                             (config_.has_client_tls() || config_.grpc_tls || has_x509_provider_));
      if (is_known) continue;
      return Error(
          key, absl::StrCat(
                   "the scheme \"", scheme,
                   "\" is not available; there are digest, ip, sasl (with "
                   "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider) "
                   "and x509 (with TLS of clients)"));
    }
    if (required.size() == 1 && required[0] == "sasl" && config_.jaas_file.empty()) {
      return Error(key,
                   "clients could not authenticate by SASL, because there is no JAAS file; name it "
                   "by jaasFile, or by -Djava.security.auth.login.config in JVMFLAGS");
    }
    return absl::OkStatus();
  }

  void WarnOfVoters() {
    const auto voters = std::count_if(config_.servers.begin(), config_.servers.end(),
                                      [](const auto& server) { return !server.second.observer; });
    if (voters == 0 || voters % 2 == 1) return;
    config_.warnings.push_back(absl::StrCat(
        config_.file, ": server.N: ", voters, " servers have a vote: they survive the loss of ",
        (voters - 1) / 2, ", no more than ", voters - 1, " would; use an odd number"));
  }

  // Takes the client address and port from the server's own server.N line.
  absl::Status TakeOwnLine(uint32_t id, const ServerLine& own) {
    if (own.client_port == 0) return absl::OkStatus();
    const std::string key = absl::StrCat("server.", id);
    if (config_.client_port != 0 && config_.client_port != own.client_port) {
      return Error(key, absl::StrCat("its client port is ", own.client_port, ", but clientPort is ",
                                     config_.client_port, "; take one of them out"));
    }
    config_.client_port = own.client_port;
    if (own.client_host.empty()) return absl::OkStatus();
    if (!config_.ListensForClientsEverywhere() && config_.client_address != own.client_host) {
      return Error(key, absl::StrCat("its client address is ", own.client_host,
                                     ", but clientPortAddress is ", config_.client_address,
                                     "; take one of them out"));
    }
    // ZooKeeper writes 0.0.0.0 for a line without a client address, and means all addresses by it.
    if (own.client_host != "0.0.0.0") config_.client_address = own.client_host;
    return absl::OkStatus();
  }

  absl::Status FinishTimes() {
    if (config_.min_session_timeout_ms <= 0) {
      config_.min_session_timeout_ms = 2 * config_.tick_time_ms;
    }
    if (config_.max_session_timeout_ms <= 0) {
      config_.max_session_timeout_ms = 20 * config_.tick_time_ms;
    }
    if (config_.min_session_timeout_ms > config_.max_session_timeout_ms) {
      return Error("minSessionTimeout",
                   absl::StrCat(config_.min_session_timeout_ms, " is above maxSessionTimeout, ",
                                config_.max_session_timeout_ms));
    }
    if (config_.heartbeat_ms == 0) {
      config_.heartbeat_ms = std::clamp(config_.election_timeout_ms / 3, 1, Config().heartbeat_ms);
    }
    if (config_.heartbeat_ms * 2 > config_.election_timeout_ms) {
      return Error("heartbeatMs",
                   absl::StrCat(config_.heartbeat_ms, " is not allowed; at most half of ",
                                "electionTimeoutMs, ", config_.election_timeout_ms));
    }
    // A reply must be able to hold the data of any znode, which arrived in one request, with a
    // header and a stat.
    const int reply_bytes_min = config_.jute_max_buffer_bytes + kReplyOverheadBytes;
    if (config_.max_reply_bytes < reply_bytes_min) {
      return Error("maxReplyBytes",
                   absl::StrCat(config_.max_reply_bytes, " is not allowed; with jute.maxbuffer ",
                                config_.jute_max_buffer_bytes, " at least ", reply_bytes_min));
    }
    if (config_.io_threads == 0) {
      config_.io_threads =
          static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u));
    }
    return absl::OkStatus();
  }

  Config config_;
  std::string log_files_dir_;  // zookeeper.log.dir
  std::string audit_name_ = "zookeeper_audit.log";
  std::string audit_threshold_;
  const ReadFile read_file_;
  std::string unknown_keys_;      // the warnings of unknown keys, each after "; "
  bool requires_secret_ = false;  // memberSecretRequired=true is given
  std::string file_;              // the file that is being read
  int line_ = 0;
  std::map<std::string, std::string> super_users_;  // by their keys, superUser and superUser.X
  bool enforces_auth_ = false;                      // enforce.auth.enabled
  bool requires_sasl_ = false;                      // sessionRequireClientSASLAuth
  bool asks_for_revocation_ = false;                // com.sun.net.ssl.checkRevocation
  bool has_x509_provider_ = false;                  // authProvider.N has the class of x509
};

// Returns a text for the errno `error`, for example "permission denied (running as user quorate)".
std::string DescribeReadError(int error) {
  std::string text = std::strerror(error);
  if (error != EACCES && error != EPERM) return text;
  const passwd* user = getpwuid(geteuid());
  return absl::StrCat(text, " (running as user ",
                      user != nullptr ? std::string(user->pw_name) : absl::StrCat(geteuid()),
                      "; it must be able to read the file and enter its directories)");
}

absl::StatusOr<std::string> ReadRealFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const std::string why = DescribeReadError(errno);
    return errno == ENOENT ? absl::NotFoundError(why) : absl::FailedPreconditionError(why);
  }
  std::string text;
  char buffer[4096];
  ssize_t count = 0;
  while ((count = read(descriptor, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kFileBytesMax) break;
  }
  const int error = errno;
  close(descriptor);
  if (count < 0) return absl::FailedPreconditionError(DescribeReadError(error));
  if (text.size() > kFileBytesMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file is larger than ", kFileBytesMax, " bytes"));
  }
  return text;
}

}  // namespace

std::string Config::MembersText() const {
  if (standalone()) return "";
  // The members are those of the configuration file. They have no zxid.
  return FormatMembers(servers, "0");
}

bool Config::ListensForClientsEverywhere() const {
  return client_address.empty() || client_address == "0.0.0.0" || client_address == "::";
}

std::string Config::ClientEndpoint() const {
  const bool is_secure = client_port == 0 && secure_client_port != 0;
  const std::string& host = is_secure ? secure_client_address : client_address;
  return absl::StrCat(host.empty() ? "*" : InBrackets(host), ":",
                      is_secure ? secure_client_port : client_port);
}

std::string Config::ClientEndpoints() const {
  std::string text;
  if (client_port != 0) {
    text = absl::StrCat(ClientEndpoint(), client_port_unification ? " with and without TLS" : "");
  }
  if (secure_client_port == 0) return text;
  const std::string host = secure_client_address.empty() ? "*" : InBrackets(secure_client_address);
  return absl::StrCat(text, text.empty() ? "" : ", and on ", host, ":", secure_client_port,
                      " with TLS");
}

bool Config::AllowsFourLetterWord(std::string_view word) const {
  return std::any_of(four_letter_words.begin(), four_letter_words.end(),
                     [&](const std::string& allowed) { return allowed == "*" || allowed == word; });
}

absl::StatusOr<Config> ParseConfig(const std::string& file, std::string_view text,
                                   ReadFile read_file, std::string_view java_options) {
  Parser parser(file, read_file);
  if (absl::Status s = parser.TakeJavaOptions(ToAbsl(java_options)); !s.ok()) return s;
  return parser.Parse(text);
}

absl::StatusOr<std::string> ReadConfigFile(const std::string& file) {
  absl::StatusOr<std::string> text = ReadRealFile(file);
  if (text.ok()) return text;
  // Other errors are not caused by the path.
  const bool is_no_file = absl::IsNotFound(text.status()) ||
                          absl::StrContains(text.status().message(), std::strerror(EISDIR));
  return absl::Status(
      text.status().code(),
      absl::StrCat(file, ": the configuration file cannot be read: ", text.status().message(),
                   is_no_file ? "; give the path of a zoo.cfg" : ""));
}

absl::StatusOr<Config> LoadConfig(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadConfigFile(file);
  if (!text.ok()) return text.status();
  return LoadConfig(file, *text);
}

absl::StatusOr<Config> LoadConfig(const std::string& file, std::string_view text) {
  std::string java_options;
  // zkServer.sh gives ZOO_LOG_DIR to Java in this way. LOGS_DIRECTORY is systemd's.
  for (const char* variable : {"LOGS_DIRECTORY", "ZOO_LOG_DIR"}) {
    const char* directory = std::getenv(variable);
    if (directory != nullptr && *directory != '\0') {
      absl::StrAppend(&java_options, " -Dzookeeper.log.dir=", directory);
    }
  }
  absl::StrAppend(&java_options, " ", JavaOptionsOfEnvironment());
  return ParseConfig(file, text, ReadRealFile, java_options);
}

}  // namespace quorate::rpc

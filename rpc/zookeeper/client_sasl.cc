// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/client_sasl.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_stamp.h"
#include "base/mutex.h"
#include "rpc/config/java_options.h"
#include "rpc/config/log_warnings.h"
#include "rpc/sasl/server.h"

namespace quorate::rpc::zk {
namespace {

// The least time between two tries to read a file that could not be used.
constexpr auto kRetryPeriod = std::chrono::seconds(1);

// Returns the content of the file, of which at most one byte too many is read.
absl::StatusOr<std::string> ReadJaasFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    std::vector<char> bytes(sasl::kJaasBytesMax + 1);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    text.assign(bytes.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof() && text.size() <= sasl::kJaasBytesMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("jaasFile: ", path, " cannot be read: ", std::strerror(errno),
                     "; the user that runs the server has to be able to read it"));
  }
  return text;
}

void WarnIfReadable(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || (status.st_mode & S_IROTH) == 0) return;
  spdlog::warn("every user of this machine can read {}, which has passwords; chmod o-r", path);
}

// Logs what in the JAAS file has no effect, and that it is open to every user of the machine.
void Warn(const Config& config, const std::vector<std::string>& warnings) {
  LogWarnings(kJaasWarning, warnings);
  WarnIfReadable(config.jaas_file);
}

// Returns the Authenticator for the JAAS file as it is now; nullptr if the file has no such section.
// Appends to `*warnings` what has no effect.
absl::StatusOr<std::unique_ptr<sasl::Authenticator>> ReadAuthenticator(
    const Config& config, std::vector<std::string>* warnings) {
  const absl::StatusOr<std::string> text = ReadJaasFile(config.jaas_file);
  if (!text.ok()) return text.status();
  sasl::Options options;
  options.file = config.jaas_file;
  options.section = config.sasl_section;
  options.super_password = config.sasl_super_password;
  options.super_users = config.sasl_super_users;
  options.removes_host = config.kerberos_removes_host;
  options.removes_realm = config.kerberos_removes_realm;
  options.auth_to_local_rules = config.auth_to_local_rules;
  options.default_realm = JavaPropertyOfEnvironment("java.security.krb5.realm").value_or("");
  return sasl::MakeAuthenticator(options, *text, JavaPropertyOfEnvironment, warnings);
}

// Reads the JAAS file again when it has changed. Exchanges that have begun go on with the users that
// they began with.
class CurrentAuthenticator : public sasl::Authenticator {
 public:
  // `config` must outlive the object. `stamp` is that of the file that `authenticator` was read from.
  CurrentAuthenticator(const Config& config, FileStamp stamp,
                       std::unique_ptr<sasl::Authenticator> authenticator)
      : config_(config), stamp_(std::move(stamp)), current_(std::move(authenticator)) {}

  std::unique_ptr<sasl::ServerExchange> Begin(std::string_view address) override {
    std::shared_ptr<sasl::Authenticator> current = Current();
    auto exchange = current->Begin(address);
    return std::make_unique<Exchange>(std::move(current), std::move(exchange));
  }

 private:
  // An exchange with the Authenticator that has begun it, which it keeps alive.
  class Exchange : public sasl::ServerExchange {
   public:
    Exchange(std::shared_ptr<sasl::Authenticator> owner,
             std::unique_ptr<sasl::ServerExchange> exchange)
        : owner_(std::move(owner)), exchange_(std::move(exchange)) {}
    absl::StatusOr<sasl::Reply> OnToken(std::string_view token) override {
      return exchange_->OnToken(token);
    }

   private:
    const std::shared_ptr<sasl::Authenticator> owner_;
    const std::unique_ptr<sasl::ServerExchange> exchange_;  // destroyed first
  };

  std::shared_ptr<sasl::Authenticator> Current() {
    const auto now = std::chrono::steady_clock::now();
    MutexLock lock(&mutex_);
    FileStamp stamp = StampOf(config_.jaas_file);
    const bool is_changed = stamp != stamp_;
    // A file that could not be used is tried again even if it looks the same: its content may have
    // changed within the resolution of its time, or the reason was outside of the file. Clients
    // decide how often they begin, so the rate of these tries is limited.
    if (!is_changed && (!has_problem_ || now - tried_ < kRetryPeriod)) return current_;
    stamp_ = std::move(stamp);
    tried_ = now;
    std::vector<std::string> warnings;
    absl::StatusOr<std::unique_ptr<sasl::Authenticator>> made =
        ReadAuthenticator(config_, &warnings);
    if (made.ok() && *made == nullptr) {
      made = absl::InvalidArgumentError(
          absl::StrCat("it has no section ", config_.sasl_section, " any more"));
    }
    has_problem_ = !made.ok();
    // Nothing is logged for a try that fails like the one before: clients cause these tries.
    if (made.ok()) {
      Warn(config_, warnings);
      current_ = *std::move(made);
      spdlog::info("the JAAS file has changed: new exchanges of SASL use it jaas_file={}",
                   config_.jaas_file);
    } else if (is_changed) {
      spdlog::error(
          "the changed JAAS file cannot be used, and the users from before stay jaas_file={}: {}",
          config_.jaas_file, std::string(made.status().message()));
    }
    return current_;
  }

  const Config& config_;
  Mutex mutex_;
  FileStamp stamp_ ABSL_GUARDED_BY(mutex_);           // of the file that was read last
  bool has_problem_ ABSL_GUARDED_BY(mutex_) = false;  // that file could not be used
  std::chrono::steady_clock::time_point tried_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<sasl::Authenticator> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<sasl::Authenticator>> MakeAuthenticator(const Config& config) {
  if (config.jaas_file.empty()) return nullptr;
  FileStamp stamp = StampOf(config.jaas_file);
  std::vector<std::string> warnings;
  auto made = ReadAuthenticator(config, &warnings);
  if (!made.ok()) return made.status();
  if (*made == nullptr) {
    LogWarnings(kJaasWarning, warnings);
    if (config.required_auth_schemes == std::vector<std::string>{"sasl"}) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.jaas_file, ": there is no section ", config.sasl_section,
                       ", but clients have to authenticate by SASL; add it, or name another by "
                       "sasl.serverconfig"));
    }
    return nullptr;
  }
  Warn(config, warnings);
  spdlog::info("clients can authenticate by SASL jaas_file={} section={}", config.jaas_file,
               config.sasl_section);
  return std::make_unique<CurrentAuthenticator>(config, std::move(stamp), *std::move(made));
}

}  // namespace quorate::rpc::zk

// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/cyrus.h"

#include <dlfcn.h>
#include <sasl/sasl.h>
#include <sasl/saslplug.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/assert.h"
#include "base/strings.h"

namespace quorate::rpc::sasl {
namespace {

constexpr char kService[] = "zookeeper";
// The name of every server, of which DIGEST-MD5 makes the realm. GSSAPI takes the server's name from
// its credential.
constexpr char kHost[] = "zk-sasl-md5";
// The name of the plug-ins of this file.
constexpr char kOurs[] = "quorate";
// How much of the library's messages is kept for the reason of a failure.
constexpr size_t kReasonBytesMax = 300;

// --- Memory of the library -----------------------------------------------------------------------

// What the library has allocated for one exchange and not freed. Its DIGEST-MD5 forgets the value of a
// key that a client sends a second time; the destructor frees it, so that clients cannot fill the
// memory. The blocks are those of malloc, because plug-ins free some of malloc by the library's function.
class ExchangeMemory {
 public:
  ExchangeMemory() = default;
  ExchangeMemory(const ExchangeMemory&) = delete;
  ExchangeMemory& operator=(const ExchangeMemory&) = delete;
  ~ExchangeMemory() {
    for (void* block : blocks_) std::free(block);
  }

  void* Add(void* block) {
    if (block != nullptr) blocks_.insert(block);
    return block;
  }
  void Remove(void* block) { blocks_.erase(block); }

 private:
  absl::flat_hash_set<void*> blocks_;
};

// That of the exchange that this thread runs; nullptr outside of exchanges.
thread_local ExchangeMemory* current_memory = nullptr;

class MemoryScope {
 public:
  explicit MemoryScope(ExchangeMemory* memory) { current_memory = memory; }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
  ~MemoryScope() { current_memory = nullptr; }
};

void* Allocate(size_t size) {
  void* block = std::malloc(size);
  return current_memory == nullptr ? block : current_memory->Add(block);
}

void* AllocateZeros(size_t count, size_t size) {
  void* block = std::calloc(count, size);
  return current_memory == nullptr ? block : current_memory->Add(block);
}

void Free(void* block) {
  if (current_memory != nullptr) current_memory->Remove(block);
  std::free(block);
}

void* Reallocate(void* block, size_t size) {
  if (current_memory != nullptr) current_memory->Remove(block);
  void* moved = std::realloc(block, size);
  if (current_memory == nullptr) return moved;
  // A block that could not be made larger is still there.
  if (moved == nullptr && size != 0) current_memory->Add(block);
  return current_memory->Add(moved);
}

// --- Settings of the library ---------------------------------------------------------------------

void* MakeMutex() { return new std::mutex; }
int LockMutex(void* mutex) {
  static_cast<std::mutex*>(mutex)->lock();
  return SASL_OK;
}
int UnlockMutex(void* mutex) {
  static_cast<std::mutex*>(mutex)->unlock();
  return SASL_OK;
}
void FreeMutex(void* mutex) { delete static_cast<std::mutex*>(mutex); }

// The library's type of all callbacks.
template <typename Function>
int (*Callback(Function* function))() {
  return reinterpret_cast<int (*)()>(reinterpret_cast<void (*)()>(function));
}

// Every setting of the library and of its plug-ins; what is not here has the library's default.
int GetOption(void* /*context*/, const char* /*plugin*/, const char* option, const char** result,
              unsigned* length) {
  // Without a time for subsequent authentication, DIGEST-MD5 keeps no nonce.
  constexpr std::array<std::pair<const char*, const char*>, 6> kOptions = {
      {{"mech_list", "DIGEST-MD5 GSSAPI"},
       {"pwcheck_method", "auxprop"},
       {"auxprop_plugin", kOurs},
       {"canon_user_plugin", kOurs},
       {"reauth_timeout", "0"},
       {"auto_transition", "no"}}};
  for (const auto& [name, value] : kOptions) {
    if (std::strcmp(option, name) != 0) continue;
    *result = value;
    if (length != nullptr) *length = static_cast<unsigned>(std::strlen(value));
    return SASL_OK;
  }
  return SASL_FAIL;
}

// Returns the directory of the plug-ins.
std::string FindPluginDirectory() {
  Dl_info found{};
  std::string library;
  if (dladdr(dlsym(RTLD_DEFAULT, "sasl_server_init"), &found) != 0) library = found.dli_fname;
  return library.substr(0, library.rfind('/') + 1) + "sasl2";
}

const std::string& PluginDirectory() {
  static const auto* const directory = new std::string(FindPluginDirectory());
  return *directory;
}

int GetPath(void* /*context*/, const char** path) {
  *path = PluginDirectory().c_str();
  return SASL_OK;
}

// Of all plug-ins in the directory, loads those of the two mechanisms.
int VerifyFile(void* /*context*/, const char* file, sasl_verify_type_t type) {
  if (type != SASL_VRFY_PLUGIN) return SASL_CONTINUE;
  const absl::string_view name(file);
  return absl::EndsWith(name, "/libdigestmd5.so") || absl::EndsWith(name, "/libgssapiv2.so")
             ? SASL_OK
             : SASL_CONTINUE;
}

int IgnoreMessage(void* /*context*/, int /*level*/, const char* /*message*/) { return SASL_OK; }

const char* NameOf(Mechanism mechanism) {
  return mechanism == Mechanism::kDigestMd5 ? "DIGEST-MD5" : "GSSAPI";
}

const char* PackageOf(Mechanism mechanism) {
  return mechanism == Mechanism::kDigestMd5 ? "libsasl2-modules" : "libsasl2-modules-gssapi-mit";
}

}  // namespace

// --- An exchange ---------------------------------------------------------------------------------

// A connection of the library, and what its callbacks find by it.
class CyrusExchange::Connection {
 public:
  Connection(CyrusExchange* owner, Mechanism mechanism, const void* credential)
      : owner_(owner),
        mechanism_(mechanism),
        credential_(credential),
        callbacks_{{{SASL_CB_PROXY_POLICY, Callback(&OnProof), this},
                    {SASL_CB_LOG, Callback(&OnMessage), this},
                    {SASL_CB_LIST_END, nullptr, nullptr}}} {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    const MemoryScope scope(&memory_);
    sasl_dispose(&connection_);
  }

  absl::StatusOr<Reply> OnToken(std::string_view token) {
    const MemoryScope scope(&memory_);
    reason_.clear();
    const char* output = nullptr;
    unsigned size = 0;
    const int result =
        connection_ == nullptr ? Begin(token, &output, &size) : Step(token, &output, &size);
    if (!refusal_.ok()) return refusal_;
    if (result != SASL_OK && result != SASL_CONTINUE) {
      return absl::UnauthenticatedError(reason_.empty() ? sasl_errstring(result, nullptr, nullptr)
                                                        : reason_.c_str());
    }
    Reply reply;
    if (output != nullptr) reply.token = std::string(output, size);
    if (result == SASL_OK) {
      ASSERT(id_.has_value(), "the library asks for the id of each client before it is done");
      reply.is_done = true;
      reply.user = *std::move(id_);
    }
    return reply;
  }

  // Initialises the library with its settings and with the plug-ins of this file.
  static absl::Status InitLibrary();

 private:
  int Begin(std::string_view token, const char** output, unsigned* size) {
    int result = sasl_server_new(kService, kHost, nullptr, nullptr, nullptr, callbacks_.data(),
                                 SASL_SUCCESS_DATA, &connection_);
    if (result != SASL_OK) return result;
    sasl_security_properties_t properties{};  // no security layer
    properties.security_flags = SASL_SEC_NOPLAINTEXT | SASL_SEC_NOANONYMOUS;
    result = sasl_setprop(connection_, SASL_SEC_PROPS, &properties);
    if (result == SASL_OK && credential_ != nullptr) {
      result = sasl_setprop(connection_, SASL_GSS_CREDS, credential_);
    }
    if (result != SASL_OK) return result;
    // DIGEST-MD5 begins with the challenge, and GSSAPI with a token of the client, which is asked for if
    // it has not sent one.
    const bool has_token = mechanism_ == Mechanism::kGssapi && !token.empty();
    return sasl_server_start(connection_, NameOf(mechanism_), has_token ? token.data() : nullptr,
                             has_token ? static_cast<unsigned>(token.size()) : 0, output, size);
  }

  int Step(std::string_view token, const char** output, unsigned* size) {
    return sasl_server_step(connection_, token.empty() ? "" : token.data(),
                            static_cast<unsigned>(token.size()), output, size);
  }

  // Takes the reason of a failure. Messages of lower levels may have parts of the client's tokens or
  // secrets, and are left out.
  static int OnMessage(void* context, int level, const char* message) {
    auto& self = *static_cast<Connection*>(context);
    if (level < SASL_LOG_ERR || level > SASL_LOG_WARN) return SASL_OK;
    const absl::string_view text = absl::StripAsciiWhitespace(message);
    if (self.reason_.size() + text.size() > kReasonBytesMax) return SASL_OK;
    absl::StrAppend(&self.reason_, self.reason_.empty() ? "" : "; ", text);
    return SASL_OK;
  }

  // Is called when the client has proved to be `name`, and asks to act as `wanted`.
  static int OnProof(sasl_conn_t* /*connection*/, void* context, const char* wanted,
                     unsigned wanted_size, const char* name, unsigned name_size,
                     const char* /*realm*/, unsigned /*realm_size*/, propctx* /*properties*/) {
    auto& self = *static_cast<Connection*>(context);
    const std::string_view proved(name, name_size);
    const std::string_view other(wanted, wanted_size);
    absl::StatusOr<std::string> id = self.owner_->IdOf(proved, other == proved ? "" : other);
    self.refusal_ = id.status();
    if (!id.ok()) return SASL_NOAUTHZ;
    self.id_ = *std::move(id);
    return SASL_OK;
  }

  // Leaves names as they are: the library's own plug-in strips spaces and appends a realm.
  static int CanonicalName(void* /*global*/, sasl_server_params_t* /*parameters*/, const char* user,
                           unsigned size, unsigned /*flags*/, char* output, unsigned output_max,
                           unsigned* output_size) {
    if (size >= output_max) return SASL_BUFOVER;
    std::memmove(output, user, size);
    output[size] = '\0';
    *output_size = size;
    return SASL_OK;
  }

  // Gives the password of the user, if a mechanism has asked for it.
  static int LookUp(void* /*global*/, sasl_server_params_t* parameters, unsigned flags,
                    const char* user, unsigned size) {
    if ((flags & SASL_AUXPROP_AUTHZID) != 0) return SASL_OK;
    const sasl_utils_t& utils = *parameters->utils;
    const propval* wanted = utils.prop_get(parameters->propctx);
    while (wanted != nullptr && wanted->name != nullptr &&
           std::strcmp(wanted->name, SASL_AUX_PASSWORD) != 0) {
      ++wanted;
    }
    if (wanted == nullptr || wanted->name == nullptr) return SASL_OK;
    sasl_callback_ft callback = nullptr;
    void* context = nullptr;
    if (utils.getcallback(utils.conn, SASL_CB_PROXY_POLICY, &callback, &context) != SASL_OK) {
      return SASL_FAIL;
    }
    auto& self = *static_cast<Connection*>(context);
    absl::StatusOr<std::string> password = self.owner_->PasswordOf({user, size});
    self.refusal_ = password.status();
    if (!password.ok()) return SASL_FAIL;
    return utils.prop_set(parameters->propctx, SASL_AUX_PASSWORD, password->c_str(),
                          static_cast<int>(password->size()));
  }

  static int InitCanonicalNames(const sasl_utils_t* utils, int version_max, int* version,
                                sasl_canonuser_plug_t** plugin, const char* name);
  static int InitPasswords(const sasl_utils_t* utils, int version_max, int* version,
                           sasl_auxprop_plug_t** plugin, const char* name);

  CyrusExchange* const owner_;
  const Mechanism mechanism_;
  const void* const credential_;
  const std::array<sasl_callback_t, 3> callbacks_;
  ExchangeMemory memory_;
  sasl_conn_t* connection_ = nullptr;  // null before the first token
  absl::Status refusal_;               // by the owner
  std::string reason_;                 // of a failure, by the library
  std::optional<std::string> id_;      // once the client has proved its name
};

int CyrusExchange::Connection::InitCanonicalNames(const sasl_utils_t* /*utils*/, int version_max,
                                                  int* version, sasl_canonuser_plug_t** plugin,
                                                  const char* /*name*/) {
  if (version_max < SASL_CANONUSER_PLUG_VERSION) return SASL_BADVERS;
  static char name[] = "quorate";
  static sasl_canonuser_plug_t made{};
  made.name = name;
  made.canon_user_server = &CanonicalName;
  *version = SASL_CANONUSER_PLUG_VERSION;
  *plugin = &made;
  return SASL_OK;
}

int CyrusExchange::Connection::InitPasswords(const sasl_utils_t* /*utils*/, int version_max,
                                             int* version, sasl_auxprop_plug_t** plugin,
                                             const char* /*name*/) {
  if (version_max < SASL_AUXPROP_PLUG_VERSION) return SASL_BADVERS;
  static char name[] = "quorate";
  static sasl_auxprop_plug_t made{};
  made.name = name;
  made.auxprop_lookup = &LookUp;
  *version = SASL_AUXPROP_PLUG_VERSION;
  *plugin = &made;
  return SASL_OK;
}

absl::Status CyrusExchange::Connection::InitLibrary() {
  static const std::array<sasl_callback_t, 5> callbacks = {
      {{SASL_CB_GETOPT, Callback(&GetOption), nullptr},
       {SASL_CB_GETPATH, Callback(&GetPath), nullptr},
       {SASL_CB_VERIFYFILE, Callback(&VerifyFile), nullptr},
       {SASL_CB_LOG, Callback(&IgnoreMessage), nullptr},
       {SASL_CB_LIST_END, nullptr, nullptr}}};
  sasl_set_alloc(&Allocate, &AllocateZeros, &Reallocate, &Free);
  sasl_set_mutex(&MakeMutex, &LockMutex, &UnlockMutex, &FreeMutex);
  // Without the name of an application, the library reads no configuration file.
  int result = sasl_server_init(callbacks.data(), nullptr);
  if (result == SASL_OK) result = sasl_auxprop_add_plugin(kOurs, &InitPasswords);
  if (result == SASL_OK) result = sasl_canonuser_add_plugin(kOurs, &InitCanonicalNames);
  if (result == SASL_OK) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "Cyrus SASL (libsasl2) cannot be initialised: ", sasl_errstring(result, nullptr, nullptr),
      "; see the log of the system"));
}

absl::Status CyrusExchange::Require(Mechanism mechanism) {
  static const auto* const initialised = new absl::Status(Connection::InitLibrary());
  if (!initialised->ok()) return *initialised;
  for (const char** name = sasl_global_listmech(); name != nullptr && *name != nullptr; ++name) {
    if (std::strcmp(*name, NameOf(mechanism)) == 0) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      NameOf(mechanism), " needs the plug-in of Cyrus SASL, which is not in ", PluginDirectory(),
      "; install the package ", PackageOf(mechanism), " of Debian, and start again"));
}

CyrusExchange::CyrusExchange(Mechanism mechanism, const void* credential)
    : connection_(std::make_unique<Connection>(this, mechanism, credential)) {}

CyrusExchange::~CyrusExchange() = default;

absl::StatusOr<Reply> CyrusExchange::OnToken(std::string_view token) {
  return connection_->OnToken(token);
}

}  // namespace quorate::rpc::sasl

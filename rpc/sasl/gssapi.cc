// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/gssapi.h"

#include <gssapi/gssapi.h>
#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>
#include <krb5.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "rpc/poller/descriptor.h"
#include "rpc/sasl/cyrus.h"

namespace quorate::rpc::sasl {
namespace {

constexpr absl::string_view kSuper = "super";
// Releases what the functions of GSSAPI allocate.
struct Buffer {
  gss_buffer_desc value = GSS_C_EMPTY_BUFFER;

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    OM_uint32 minor = 0;
    gss_release_buffer(&minor, &value);
  }
  std::string_view text() const {
    return {static_cast<const char*>(value.value), value.value == nullptr ? 0 : value.length};
  }
};

struct Name {
  gss_name_t value = GSS_C_NO_NAME;

  Name() = default;
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  ~Name() {
    OM_uint32 minor = 0;
    if (value != GSS_C_NO_NAME) gss_release_name(&minor, &value);
  }
};

// Returns a view of `text` for arguments that GSSAPI does not change.
gss_buffer_desc BufferOf(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};
}

// Returns the texts of an error of GSSAPI.
std::string ErrorText(OM_uint32 major, OM_uint32 minor) {
  std::string text;
  for (const auto& [code, kind] : {std::pair{major, GSS_C_GSS_CODE}, {minor, GSS_C_MECH_CODE}}) {
    OM_uint32 more = 0;
    do {
      OM_uint32 ignored = 0;
      Buffer message;
      if (GSS_ERROR(
              gss_display_status(&ignored, code, kind, GSS_C_NO_OID, &more, &message.value)) != 0) {
        break;
      }
      absl::StrAppend(&text, text.empty() ? "" : "; ", ToAbsl(message.text()));
    } while (more != 0);
  }
  return text;
}

// The OID of Kerberos, as GSSAPI wants it in a set.
gss_OID_set_desc KerberosOnly() { return {1, const_cast<gss_OID>(gss_mech_krb5)}; }

}  // namespace

struct Gssapi::Credential {
  Descriptor replays;  // the file in memory with the tokens that were accepted
  gss_cred_id_t value = GSS_C_NO_CREDENTIAL;

  Credential() = default;
  Credential(const Credential&) = delete;
  Credential& operator=(const Credential&) = delete;
  ~Credential() {
    OM_uint32 minor = 0;
    if (value != GSS_C_NO_CREDENTIAL) gss_release_cred(&minor, &value);
  }
};

class Gssapi::Exchange : public CyrusExchange {
 public:
  explicit Exchange(const Gssapi* owner)
      : CyrusExchange(Mechanism::kGssapi, owner->credential_->value), owner_(*owner) {}

 private:
  absl::StatusOr<std::string> PasswordOf(std::string_view /*user*/) override {
    return absl::UnauthenticatedError("clients of Kerberos have no password");
  }

  // Cyrus SASL leaves out the realm of a name if it is the default one of krb5.conf.
  absl::StatusOr<std::string> IdOf(std::string_view proved, std::string_view wanted) override {
    std::string name(proved);
    if (proved.find('@') == std::string_view::npos) absl::StrAppend(&name, "@", DefaultRealm());
    absl::StatusOr<std::string> id = owner_.ids_.IdOf(name, wanted);
    // This id passes every entry of the scheme sasl.
    if (id.ok() && *id == kSuper && !owner_.allows_super_) {
      return absl::UnauthenticatedError(
          absl::StrCat("the principal \"", name,
                       "\" would get the id super, but superUser does not name it; set superUser "
                       "to its id, or rename "
                       "the principal"));
    }
    return id;
  }

  const Gssapi& owner_;
};

Gssapi::Gssapi(std::unique_ptr<Credential> credential, bool allows_super, IdMapping ids)
    : credential_(std::move(credential)), allows_super_(allows_super), ids_(std::move(ids)) {}

Gssapi::~Gssapi() = default;

absl::StatusOr<std::unique_ptr<Gssapi>> Gssapi::Create(const KerberosOptions& options,
                                                       IdMapping ids) {
  if (absl::Status s = CyrusExchange::Require(Mechanism::kGssapi); !s.ok()) return s;
  OM_uint32 minor = 0;
  Name name;
  gss_buffer_desc principal = BufferOf(options.principal);
  OM_uint32 major = gss_import_name(&minor, &principal, GSS_KRB5_NT_PRINCIPAL_NAME, &name.value);
  if (GSS_ERROR(major) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the principal ", options.principal,
                                                   " is not valid: ", ErrorText(major, minor)));
  }
  auto credential = std::make_unique<Credential>();
  credential->replays = Descriptor(memfd_create("quorate-kerberos-replays", MFD_CLOEXEC));
  if (!credential->replays.is_open()) {
    return absl::ErrnoToStatus(errno, "cannot make the memory for tokens of Kerberos");
  }
  // The library opens its files by their names.
  const std::string replays = absl::StrCat("file2:/proc/self/fd/", credential->replays.number());
  const std::string keytab = absl::StrCat("FILE:", options.keytab);
  std::array<gss_key_value_element_desc, 2> elements = {
      {{"rcache", replays.c_str()}, {"keytab", keytab.c_str()}}};
  const gss_key_value_set_desc store = {options.keytab.empty() ? 1U : 2U, elements.data()};
  gss_OID_set_desc mechanisms = KerberosOnly();
  major = gss_acquire_cred_from(&minor, name.value, GSS_C_INDEFINITE, &mechanisms, GSS_C_ACCEPT,
                                &store, &credential->value, nullptr, nullptr);
  if (GSS_ERROR(major) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the keytab ", options.keytab.empty() ? "of krb5.conf" : options.keytab,
                     " cannot be used for ", options.principal, ": ", ErrorText(major, minor),
                     "; it has to be readable, and to have a key of this principal (klist -k)"));
  }
  return std::unique_ptr<Gssapi>(
      new Gssapi(std::move(credential), options.allows_super, std::move(ids)));
}

std::unique_ptr<ServerExchange> Gssapi::Begin(std::string_view /*address*/) {
  return std::make_unique<Exchange>(this);
}

std::string DefaultRealm() {
  krb5_context context = nullptr;
  if (krb5_init_context(&context) != 0) return "";
  char* realm = nullptr;
  std::string text;
  if (krb5_get_default_realm(context, &realm) == 0) {
    text = realm;
    krb5_free_default_realm(context, realm);
  }
  krb5_free_context(context);
  return text;
}

}  // namespace quorate::rpc::sasl

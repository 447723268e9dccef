#include "kube/credentials.h"

#include <list>

#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/write.h"
#include "kube/files.h"
#include "net/process.h"

namespace cadre::kube {

namespace {

constexpr Duration kTokenFileAge = 60s;
constexpr Duration kExpiryLeeway = 10s;

class FixedCredentials final : public Credentials {
 public:
  explicit FixedCredentials(std::string authorization)
      : identity_{.authorization = std::move(authorization)} {}
  Pending get(Function<void(Result<Identity>)> done) override {
    done(identity_);
    return {};
  }
  bool refused(const Identity&) override { return false; }

 private:
  Identity identity_;
};

class TokenFileCredentials final : public Credentials {
 public:
  TokenFileCredentials(const Clock& clock, std::string path, std::string token, Logger& logger)
      : clock_(clock),
        path_(std::move(path)),
        token_(std::move(token)),
        read_at_(clock.instant()),
        logger_(logger) {}

  Pending get(Function<void(Result<Identity>)> done) override {
    if (clock_.instant() - read_at_ >= kTokenFileAge) read();
    done(Identity{.authorization = "Bearer " + token_});
    return {};
  }
  bool refused(const Identity& identity) override {
    read();
    return identity.authorization != "Bearer " + token_;
  }

 private:
  void read() {
    read_at_ = clock_.instant();
    std::string text;
    std::string_view token = readFile(path_, text) ? std::string_view() : trim(text);
    if (token.empty())
      logger_.warn("the token file is gone or empty; the last token stays in use",
                   {{"file", path_}});
    else
      token_ = token;
  }

  const Clock& clock_;
  const std::string path_;
  std::string token_;
  Instant read_at_;
  Logger& logger_;
};

class ExecCredentials final : public Credentials {
 public:
  ExecCredentials(net::Loop& loop, const Clock& clock, const Config& config,
                  std::map<std::string, std::string> environment)
      : loop_(loop),
        clock_(clock),
        plugin_(*config.exec),
        source_(config.source),
        environment_(std::move(environment)) {
    for (const auto& [name, value] : plugin_.env) environment_[name] = value;
    json::Object spec{{"interactive", interactive()}};
    if (plugin_.provide_cluster_info) {
      json::Object cluster{{"server", config.server.origin() + config.server.target}};
      if (!config.tls.ca.empty())
        cluster.set("certificate-authority-data", base64Encode(config.tls.ca));
      if (!config.tls.server_name.empty()) cluster.set("tls-server-name", config.tls.server_name);
      if (!config.tls.verify) cluster.set("insecure-skip-tls-verify", true);
      if (!plugin_.cluster_extension.isNull()) cluster.set("config", plugin_.cluster_extension);
      spec.set("cluster", std::move(cluster));
    }
    environment_["KUBERNETES_EXEC_INFO"] =
        json::write(json::Object{{"apiVersion", plugin_.api_version},
                                 {"kind", "ExecCredential"},
                                 {"spec", std::move(spec)}});
  }

  Pending get(Function<void(Result<Identity>)> done) override {
    if (identity_ && (!expires_ || clock_.now() + kExpiryLeeway < *expires_)) {
      done(*identity_);
      return {};
    }
    auto waiter = std::make_shared<Function<void(Result<Identity>)>>(std::move(done));
    waiters_.push_back(waiter);
    if (waiters_.size() == 1) run();
    return Pending([waiter] { *waiter = nullptr; });
  }

  bool refused(const Identity& identity) override {
    // Someone else's 401 may have led to a new one already.
    if (identity_ && identity_->authorization == identity.authorization &&
        identity_->certificate == identity.certificate)
      identity_.reset();
    return true;
  }

 private:
  bool interactive() const {
    return plugin_.interactive_mode != ExecPlugin::InteractiveMode::Never && ::isatty(STDIN_FILENO);
  }

  void run() {
    if (plugin_.interactive_mode == ExecPlugin::InteractiveMode::Always && !interactive()) {
      // Not from here: the caller does not hold its Pending yet.
      process_ = loop_.after(0s, [this] {
        answer(failure("wants to ask something, and there is no terminal; run it in one"));
      });
      return;
    }
    std::vector<std::string> argv{plugin_.command};
    argv.insert(argv.end(), plugin_.args.begin(), plugin_.args.end());
    process_ =
        net::runProcess(loop_,
                        {.argv = std::move(argv),
                         .env = environment_,
                         .interactive = interactive(),
                         .timeout = interactive() ? Duration(10min) : Duration(60s)},
                        [this](Result<net::ProcessResult> result) { finished(std::move(result)); });
  }

  void finished(Result<net::ProcessResult> result) { answer(read(std::move(result))); }

  void answer(Result<Identity> identity) {
    if (identity) identity_ = *identity;
    for (auto& waiter : std::exchange(waiters_, {}))
      if (*waiter) (*waiter)(identity);
  }

  Error failure(std::string why) const {
    return Error{
        .code = Code::Unauthenticated,
        .message = format("the credential plugin \"{}\" ({}) {}{}{}", plugin_.command, source_, why,
                          plugin_.install_hint.empty() ? "" : "; ", plugin_.install_hint)};
  }

  Result<Identity> read(Result<net::ProcessResult> result) {
    if (!result && result.error().code == Code::NotFound)
      return failure("is not found; install it, or correct \"command\"");
    if (!result) return failure("did not start: " + result.error().text());
    if (result->timed_out) return failure("did not answer in time");
    if (result->exit_code != 0)
      return failure(format("ended with code {}: {}", result->exit_code,
                            shorten(redact(trim(result->errors)), 500)));
    auto answer = json::parse(result->output);
    if (!answer) return failure("did not print JSON");  // and what it printed may be a secret
    if ((*answer)["kind"].string() != "ExecCredential" ||
        (*answer)["apiVersion"].string() != plugin_.api_version)
      return failure(format("did not print an ExecCredential of {}", plugin_.api_version));
    const json::Value& status = (*answer)["status"];
    Identity identity{.authorization = {},
                      .certificate = status["clientCertificateData"].string(),
                      .key = status["clientKeyData"].string()};
    if (const std::string& token = status["token"].string(); !token.empty())
      identity.authorization = "Bearer " + token;
    if (identity.authorization.empty() && identity.certificate.empty())
      return failure("gave neither a token nor a certificate");
    if (identity.certificate.empty() != identity.key.empty())
      return failure("gave a certificate without its key, or a key without its certificate");
    const json::Value& expires = status["expirationTimestamp"];
    expires_ = parseTime(expires.string());
    if (!expires.isNull() && !expires_)
      return failure("gave an expirationTimestamp that is no time");
    return identity;
  }

  net::Loop& loop_;
  const Clock& clock_;
  const ExecPlugin plugin_;
  const std::string source_;
  std::map<std::string, std::string> environment_;
  std::optional<Identity> identity_;
  std::optional<Time> expires_;
  std::list<std::shared_ptr<Function<void(Result<Identity>)>>> waiters_;
  Pending process_;
};

}  // namespace

std::unique_ptr<Credentials> makeCredentials(net::Loop& loop, const Clock& clock,
                                             const Config& config,
                                             std::map<std::string, std::string> environment,
                                             Logger& logger) {
  if (config.exec)
    return std::make_unique<ExecCredentials>(loop, clock, config, std::move(environment));
  if (!config.token_file.empty())
    return std::make_unique<TokenFileCredentials>(clock, config.token_file, config.token, logger);
  if (!config.token.empty()) return std::make_unique<FixedCredentials>("Bearer " + config.token);
  if (!config.username.empty())
    return std::make_unique<FixedCredentials>(
        "Basic " + base64Encode(config.username + ":" + config.password));
  return std::make_unique<FixedCredentials>("");
}

}  // namespace cadre::kube

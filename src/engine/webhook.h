#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "engine/serve.h"
#include "engine/serving_keys.h"
#include "kube/meta.h"

namespace cadre::engine {

enum class Operation { Create, Update, Delete };

// What is wrong with an object. Nothing: it is allowed.
struct Verdict {
  std::vector<Detail> causes = {};  // {"spec.bulbs", "FieldValueInvalid", "must be at least 1"}
  std::vector<std::string> warnings = {};  // shown to the user in either case
};

// Says whether objects of a kind may be so. Pure: the API server also asks in dry runs, and for
// objects that are then not stored. On deletion `object` is null, on creation `old_object`.
struct Validator {
  kube::Resource resource;
  Function<Verdict(Operation operation, const json::Value& object, const json::Value& old_object)>
      validate;
};

// The answer to an AdmissionReview (admission.k8s.io/v1). Subresources are allowed unseen, and so
// are changes of what is being deleted: it must be able to go. InvalidArgument for what is no
// review, NotFound for a kind that no validator knows.
Result<json::Value> answerReview(const json::Value& review,
                                 const std::vector<Validator>& validators);

struct WebhookOptions {
  std::string address = ":9443";
  std::vector<Validator> validators;
  // Where the certificate comes from: a folder with tls.crt and tls.key, which is looked at again
  // and again; or else keys of our own.
  std::string certificate_directory;
  KeyKeeperOptions keys;
  Logger* logger = nullptr;
  Metrics* metrics = nullptr;
};

// Answers POST /validate for the API server, with TLS. A new certificate is served to those who
// connect from then on; who is connected is not disturbed. Belongs to the loop's thread.
class WebhookServer {
 public:
  static Result<std::unique_ptr<WebhookServer>> open(net::Loop& loop, kube::Client& client,
                                                     Random& random, WebhookOptions options);

  std::uint16_t port() const { return server_->port(); }
  // What keeps the API server from being answered; empty when all is well.
  std::string trouble() const;
  // Looks at the certificate folder now.
  Result<> reload();
  // Takes no new connections; calls back when the last answer is out.
  void drain(Function<void()> drained) { server_->drain(std::move(drained)); }

 private:
  WebhookServer(net::Loop& loop, WebhookOptions options);
  void answer(net::ServerRequest& request);
  void watchDirectory();
  Result<> serve(const net::CertificateAndKey& pair);
  void count(int status, Duration took);

  net::Loop& loop_;
  const WebhookOptions options_;
  Logger& logger_;
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<KeyKeeper> keeper_;
  net::CertificateAndKey served_;
  Pending timer_;
};

// The API server can be answered.
Check answering(const WebhookServer& server);

}  // namespace cadre::engine

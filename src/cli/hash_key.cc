#include "cli/hash_key.h"

#include "base/backoff.h"
#include "base/format.h"
#include "base/strings.h"
#include "net/tls.h"

namespace cadre::cli {
namespace {

const kube::Resource kSecrets{"", "v1", "secrets", "Secret"};
const std::string kName = "cadre-hash-key";
constexpr int kTries = 8;

// A server that has trouble at the moment is asked again.
Result<json::Value> ask(Cluster& cluster, const Function<Pending(kube::Client::Done)>& start) {
  Random random = Random::fromSystem();
  Backoff backoff({.first = 500ms, .limit = 5s, .factor = 2, .jitter = 0.3}, random);
  for (int tries = 1;; ++tries) {
    auto answer = cluster.await<json::Value>([&](auto done) { return start(std::move(done)); });
    bool passes = !answer && (answer.error().code == Code::Unavailable ||
                              answer.error().code == Code::Internal ||
                              answer.error().code == Code::DeadlineExceeded);
    if (!passes || tries == kTries) return answer;
    bool over = false;
    Pending wait = cluster.loop.after(backoff.next(), [&] { over = true; });
    cluster.loop.runUntil([&] { return over; }, 1min);
  }
}

}  // namespace

Result<std::string> readHashKey(Cluster& cluster, const std::string& ns) {
  kube::ObjectKey key{ns, kName};
  auto found =
      ask(cluster, [&](auto done) { return cluster.client->get(kSecrets, key, std::move(done)); });
  if (!found) return std::move(found).error().context("reading the Secret " + key.text());
  auto bytes = base64Decode((*found)["data"]["key"].string());
  if (!bytes || bytes->size() < 16)
    return Error{.code = Code::DataLoss,
                 .message = format("Secret {} has no key of 16 bytes or more; delete it, and a new "
                                   "one is made",
                                   key.text())};
  return *std::move(bytes);
}

Result<std::string> makeHashKey(Cluster& cluster, const std::string& ns) {
  auto found = readHashKey(cluster, ns);
  if (found || found.error().code != Code::NotFound) return found;
  json::Value made =
      json::Object{{"metadata", json::Object{{"name", kName}, {"namespace", ns}}},
                   {"data", json::Object{{"key", base64Encode(net::secureRandom(32))}}}};
  auto created = ask(cluster, [&](auto done) {
    return cluster.client->create(kSecrets, made, {}, std::move(done));
  });
  if (!created && created.error().code != Code::AlreadyExists) {
    Error error = std::move(created).error();
    if (error.code == Code::NotFound)
      error.message += format("; make it: kubectl create namespace {}, or name another one", ns);
    return std::move(error).context(format("making the Secret {}/{}", ns, kName));
  }
  return readHashKey(cluster, ns);
}

Function<std::string(std::string_view)> hashWith(std::string key) {
  return [key = std::move(key)](std::string_view value) {
    return hexEncode(net::hmacSha256(key, value));
  };
}

}  // namespace cadre::cli

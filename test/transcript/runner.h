#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/random.h"
#include "base/result.h"
#include "kube/config.h"
#include "kube/credentials.h"
#include "net/http_client.h"
#include "net/loop.h"
#include "transcript/case.h"

namespace cadre::transcript {

// An API server that cases run against: the way there with our credentials, and without any.
// Belongs to its loop's thread.
class Server {
 public:
  static Result<std::unique_ptr<Server>> connect(net::Loop& loop, kube::Config config);

  net::Loop& loop() { return loop_; }
  // With credentials unless it is anonymous. The listener's callbacks come while the loop runs.
  Pending send(net::HttpRequest request, bool anonymous, net::ResponseHandler handler);
  // Blocks until the answer is there.
  Result<net::HttpResponse> fetch(net::HttpRequest request, bool anonymous);

 private:
  Server(net::Loop& loop, kube::Config config) : loop_(loop), config_(std::move(config)) {}
  net::HttpRequest complete(net::HttpRequest request, bool anonymous) const;

  net::Loop& loop_;
  const kube::Config config_;
  kube::Credentials::Identity identity_;
  std::unique_ptr<net::HttpClient> known_, anonymous_;
};

// Where and how a case went wrong.
struct Failure {
  int line = 0;
  std::string text;
};

struct RunOptions {
  bool show = false;  // print every answer, for whoever writes a case
};

// Runs the steps in order, in a namespace of their own that exists for this run only, and stops at
// the first one that fails. Blocks until then.
std::optional<Failure> run(Server& server, const Case& transcript, Random& random,
                           const RunOptions& options = {});

}  // namespace cadre::transcript

#pragma once

#include <memory>
#include <set>
#include <string>

#include "base/metrics.h"
#include "base/random.h"
#include "hub/admission.h"
#include "hub/collector.h"
#include "hub/definitions.h"
#include "hub/event_expiry.h"
#include "hub/kind.h"
#include "hub/limits.h"
#include "hub/objects.h"
#include "hub/rbac.h"
#include "hub/registry.h"
#include "hub/render.h"
#include "hub/request.h"
#include "hub/tokens.h"
#include "hub/users.h"
#include "hub/watches.h"
#include "net/http_server.h"

namespace cadre::hub {

struct HubOptions {
  Objects::Keep keep = {};
  Objects::Limits history = {};
  Watches::Limits watches = {};
  // Kinds that are described in C++: their rules are asked where a definition has CEL.
  std::vector<const kube::Kind*> natives = {};
  StaticTokens tokens = {};
  std::optional<net::SigningKey> signing_key = {};  // of service account tokens; none: a new one
  Admission::Connect connect = {};
  // Answers GET /backup, to whom RBAC lets; none: there is no such path.
  Function<void(std::shared_ptr<net::ServerRequest>)> backup = {};
  // Serves Services at their addresses, on the loopback, and pods with tokens of their accounts.
  bool has_node = false;
  int api_port = 443;  // of the Service by which pods find the API
  // Answers for what runs a pod, by the subresource and the options of the request: log, exec,
  // attach, portforward. None: there is no node.
  Function<void(const Asked& asked, const json::Value& pod, std::shared_ptr<net::ServerRequest>)>
      node = {};
};

// A Kubernetes API server. What it is asked comes in as HTTP requests, from a server or from a
// client in the same process; it asks nobody else. Belongs to the scheduler's thread.
class Hub {
 public:
  Hub(Scheduler& scheduler, Random& random, HubOptions options);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // Made of what a log has, before the first request.
  Objects& objects() { return objects_; }
  // What every cluster has: its first namespaces. After the log was read.
  void furnish();
  // Of the Service by which pods find this API; empty: there is no node.
  const std::string& apiAddress() const { return api_address_; }

  void handle(std::shared_ptr<net::ServerRequest> request);

 private:
  struct Call;
  using CallRef = std::shared_ptr<Call>;
  // What a list shows, and a deletion of many takes away.
  struct Page {
    std::vector<State> items = {};
    ListMeta meta;
  };

  void serve(const CallRef& call);
  void servePath(const CallRef& call);
  void serveHealth(const CallRef& call);
  void servePaths(const CallRef& call);
  void serveDiscovery(const CallRef& call);
  std::optional<Failure> authorize(Call& call);
  void review(const CallRef& call);
  std::optional<Answer> reviewed(const Call& call, const json::Value& review);
  void requestToken(const CallRef& call);
  void bind(const CallRef& call);
  void askNode(const CallRef& call);
  void serveOpenApi(const CallRef& call);
  void serveMetrics(const CallRef& call);
  void get(const CallRef& call);
  void show(const CallRef& call, int code, const Stored& state);
  void show(const CallRef& call, int code, json::Value object);
  void list(const CallRef& call);
  void watch(const CallRef& call);
  void create(const CallRef& call);
  void update(const CallRef& call);
  void patch(const CallRef& call);
  void remove(const CallRef& call);
  static Asking askingToRemove(const KindRef& kind, const Stored& state, const Deleting& deleting);
  void furnishApi();
  std::optional<Failure> settled(Draft& draft, bool changed);
  std::optional<Failure> completed(Draft& draft);
  std::optional<Failure> escalated(const Call& call, const Draft& draft);
  void admitCollected(const KindRef& kind, const Stored& state, const Deleting& deleting,
                      Function<void(bool admitted)> then);
  void removeAdmitted(const CallRef& call, const Deleting& deleting, const Stored& there);
  void removeAll(const CallRef& call);
  void removeEach(const CallRef& call, const Deleting& deleting, const Page& page,
                  std::size_t first);
  bool removeOne(const CallRef& call, const Deleting& deleting, const Stored& state);

  bool waitsFor(const CallRef& call, std::int64_t wanted, void (Hub::*then)(const CallRef&));
  Outcome<Page> pageOf(Call& call) const;
  std::optional<Failure> parseSelection(Call& call, Selection& selection) const;
  std::optional<Failure> parseWriting(Call& call, std::string_view options, Writing& writing) const;
  Outcome<Deleting> parseDeleting(Call& call) const;
  // What a write was asked with, as webhooks see it.
  static json::Value writeOptions(const Call& call, std::string_view kind);
  // Fields that stand in it twice are told in `writing`.
  Outcome<json::Value> parseBody(const Call& call, Writing& writing) const;
  std::optional<Failure> checkKind(const Call& call, json::Value& object) const;
  void write(const CallRef& call, Outcome<Draft> draft);
  void admit(const CallRef& call, Asking asking,
             Function<void(const CallRef& call, Asking asked)> then);
  // Whether a write was begun again, since its object has changed meanwhile.
  bool redone(const CallRef& call, const Draft& draft);
  void wait(const CallRef& call);
  // A call that goes on, unless its client has left.
  CallRef resumed(const std::weak_ptr<Call>& weak);
  void finish(const CallRef& call, Outcome<Written> written);
  // Answers wait until everything that they could tell of is kept.
  void answer(const CallRef& call, int code, std::string type, std::string text);
  void answer(const CallRef& call, int code, const json::Value& body);
  void answer(const CallRef& call, const Page& page);
  static void answerTagged(const CallRef& call, std::string type, std::string text);
  void refuse(const CallRef& call, const Failure& failure);

  void told(const Change& change);
  const Rbac& rbac();

  Scheduler& scheduler_;
  Random& random_;
  HubOptions options_;
  Metrics metrics_;
  Kinds kinds_;
  Objects objects_;
  Registry registry_;
  Tokens tokens_;
  RbacRef rbac_;
  bool rbac_outdated_ = true;
  std::set<CallRef> waiting_;
  Admission admission_;
  Watches watches_;
  Collector collector_;
  std::map<std::uint64_t, Pending> collecting_;  // what webhooks are asked about
  std::uint64_t collected_ = 0;
  Limits limits_;
  EventExpiry expiry_;
  Definitions definitions_;
  std::string api_address_;
};

}  // namespace cadre::hub

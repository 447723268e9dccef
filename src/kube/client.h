#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "json/parse.h"
#include "kube/config.h"
#include "kube/credentials.h"
#include "kube/meta.h"
#include "net/http.h"
#include "net/web_socket.h"

namespace cadre::kube {

enum class PatchType { Json, Merge, Strategic, Apply };

struct WriteOptions {
  Impersonation as = {};           // whom it is done for; empty: as the config says
  std::string field_manager = {};  // empty: the client's own
  bool force = false;              // Apply: take fields over from other managers
  bool dry_run = false;
  std::string field_validation =
      {};  // Strict, Warn or Ignore; empty: Strict for Apply, else the server's choice
  std::string subresource = {};  // "status", "scale", ...
  // Whether it is sent again where the server asks to come back later. Who must look first whether
  // it may still be sent takes the error, with retry_after in it.
  bool retry = true;
};

struct DeleteOptions {
  Impersonation as = {};
  std::string uid = {};               // only this one, not a later one of the same name
  std::string resource_version = {};  // only if unchanged since
  std::string propagation = {};  // Background, Foreground or Orphan; empty: the server's choice
  std::optional<std::int64_t> grace_seconds = std::nullopt;
  bool dry_run = false;
  bool retry = true;  // as in WriteOptions
};

// Which objects: all of them by default.
struct Selection {
  std::string ns = {};  // empty: everywhere
  std::string labels = {};
  std::string fields = {};
};

struct ListOptions {
  Selection select = {};
  std::size_t page = 500;             // objects per request; 0: all at once
  std::string resource_version = {};  // "": the newest
  std::string continue_token = {};
  bool drop_managed_fields = true;
  bool json_only = false;  // see Client
};

// What a page of a list says beside its items.
struct ListPage {
  std::string resource_version;
  std::string continue_token;  // empty on the last page
};

enum class EventType { Added, Modified, Deleted, Bookmark };

struct WatchOptions {
  Selection select = {};
  std::string resource_version = {};
  bool initial_events = false;  // first all that exists, then a marked bookmark (a streaming list)
  Duration timeout = 5min;      // then the server ends it; it is resumed from the last version
  bool drop_managed_fields = true;
  bool json_only = false;  // see Client
};

struct ClientOptions {
  std::string user_agent = "cadre";
  std::string field_manager = "cadre";
  // Requests per second and how many at once beyond; 0: no limit. The server's own fairness is the
  // better one.
  double qps = 0;
  int burst = 0;
  std::size_t max_answer_bytes =
      64u << 20;             // of one object or page; lists and watches are read as they come
  Duration timeout = 60s;    // of a request that is no watch
  Logger* logger = nullptr;  // deprecations and other warnings of the server; null: nowhere
  Metrics* metrics = nullptr;
};

// The way to a Kubernetes API server. All calls are asynchronous: the callback comes on the loop's
// thread, once, never from inside the call, and never after its Pending was dropped.
//
// Watches and requests never share a connection, so that hundreds of watches cannot take the
// streams that writes need. A request is sent again only when the server asks for it (429 or 5xx
// with Retry-After), or when it was refused with 401 and there is a newer token. Failures carry the
// server's own reason, and field conflicts as data in Error::details. Where the server cannot be
// reached the error names its address, where that came from and what to look at.
//
// Lists and watches of built-in kinds come as protobuf where the server has it, which costs it half
// as much; their objects are what JSON gives, but without the fields of newer servers
// (kube/protobuf.h). Whoever writes such an object back as a whole asks with `json_only`.
class Client {
 public:
  using Done = Function<void(Result<json::Value>)>;
  using OpenedSocket = Function<void(Result<std::unique_ptr<net::WebSocket>>)>;

  // Connections to one server with one client certificate.
  struct Transport {
    std::unique_ptr<net::HttpClient> requests, watches;
    Function<bool()> idle = [] { return true; };  // nothing is under way on it
    // Opens a WebSocket, with what the request has beyond the way there. None: there is no way.
    Function<Pending(net::WebSocketRequest request, OpenedSocket done)> upgrade = {};
  };
  using MakeTransport = Function<Result<Transport>(const net::TlsClientOptions&)>;

  // For programs: the transport and credentials that the config asks for.
  static Result<std::unique_ptr<Client>> connect(net::Loop& loop, Config config,
                                                 ClientOptions options = {});
  // For tests: everything is given.
  Client(Scheduler& scheduler, Config config, Transport transport, MakeTransport make_transport,
         std::unique_ptr<Credentials> credentials, ClientOptions options);
  ~Client();

  const Config& config() const { return config_; }
  Scheduler& scheduler() { return scheduler_; }

  Pending get(const Resource& resource, const ObjectKey& key, Done done,
              std::string_view subresource = {});
  // Every object, page by page, in one answer. A list that expires between pages starts again.
  Pending list(const Resource& resource, ListOptions options,
               Function<void(Result<std::vector<json::Value>>)> done);
  // One page, item by item as they arrive; the page itself is never held.
  Pending listPage(const Resource& resource, const ListOptions& options,
                   Function<void(json::Value)> item, Function<void(Result<ListPage>)> done);
  Pending create(const Resource& resource, const json::Value& object, const WriteOptions& options,
                 Done done);
  Pending update(const Resource& resource, const json::Value& object, const WriteOptions& options,
                 Done done);
  Pending patch(const Resource& resource, const ObjectKey& key, PatchType type,
                const json::Value& patch, const WriteOptions& options, Done done);
  // Server-side apply of exactly these fields; needs a name.
  Pending apply(const Resource& resource, const json::Value& object, const WriteOptions& options,
                Done done);
  Pending remove(const Resource& resource, const ObjectKey& key, const DeleteOptions& options,
                 Done done);
  Pending removeAll(const Resource& resource, const Selection& select, const DeleteOptions& options,
                    Done done);

  // Events as they come, until the server or the network ends it. An ERROR event ends it with that
  // error. The Watcher (kube/watch.h) is what most callers want.
  Pending watch(const Resource& resource, const WatchOptions& options,
                Function<void(EventType, json::Value)> event, Function<void(Result<>)> end);

  // Anything else: GET /version, a subresource with a body of its own.
  Pending request(std::string method, std::string target, std::string body,
                  std::string content_type, Done done, std::string accept = "application/json");

  // Talks with a pod, such as its exec: a subresource that is a WebSocket.
  Pending openWebSocket(std::string target, std::string subprotocol, OpenedSocket done);
  // An answer that is no object and may never end, as a log that is followed: piece by piece as it
  // comes. Shares its connections with watches.
  Pending stream(std::string target, Function<void(std::string_view)> data,
                 Function<void(Result<>)> end);

  // To a Service, which the API server passes everything on to: a way in from outside of the
  // cluster. Its answers come as they are. Must not outlive the client.
  std::unique_ptr<net::HttpClient> toService(const ObjectKey& service, int port);

 private:
  struct Call;
  class ToService;
  void address(net::HttpRequest& request) const;
  Pending write(std::string method, std::string target, std::string body,
                std::string_view content_type, const Impersonation& as, bool retry, Done done);
  Result<> authorize(net::HttpRequest& request, const Credentials::Identity& identity) const;
  Pending send(std::shared_ptr<Call> call);
  void beginAfter(const std::shared_ptr<Call>& call, Duration delay);
  void begin(const std::shared_ptr<Call>& call);
  void dispatch(const std::shared_ptr<Call>& call, Credentials::Identity identity);
  void answered(const std::shared_ptr<Call>& call, net::ResponseHead head);
  void ended(const std::shared_ptr<Call>& call, Result<> result);
  void count(const Call& call);
  Pending sendForObject(net::HttpRequest request, Done done, bool retry = true);

  Error unreachable(Error error) const;
  Result<> refreshTransport(const Credentials::Identity& identity);
  void surfaceWarnings(const net::Headers& headers);
  Duration reserve();
  std::string writeQuery(const WriteOptions& options, bool apply) const;

  Scheduler& scheduler_;
  Config config_;
  Transport transport_;
  MakeTransport make_transport_;
  std::unique_ptr<Credentials> credentials_;
  const ClientOptions options_;
  std::vector<Transport> retired_;  // until what runs on them has ended
  std::string certificate_, key_;   // what transport_ was made with
  Instant files_read_at_;
  double tokens_;  // of the rate limit
  Instant tokens_at_;
  std::set<std::string, std::less<>> warned_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// What the server says of itself: GET /version.
Pending serverVersion(Client& client, Client::Done done);

}  // namespace cadre::kube

// What the benchmark of the operator does to a cluster besides running an operator.
//
//   --do fill      makes MCPServers that nobody serves yet
//   --do foreign   makes Deployments and Secrets that are none of the operator's business
//   --do limit     the limit: for MCPServers that exist sends exactly the writes that `cadre
//   operator`
//                  ends with, made in advance by its own plan, and looks at nothing
//   --do repair    deletes one Service after the other under a running operator, and tells how long
//                  each was gone: from its DELETED until its ADDED, as one watch tells them
#include "base/format.h"
#include "engine/reconcile.h"
#include "kinds/kaos/plans.h"
#include "kube/watch.h"
#include "support.h"

namespace cadre::bench {
namespace {

struct Work {
  std::string ns;
  std::size_t count;
  std::size_t in_flight;
};

std::string nameOf(std::size_t number) { return format("tools-{}", number); }

auto finishing(Function<void()> done) {
  return [done = std::move(done)](Result<json::Value> answer) {
    if (!answer) fail(answer.error().text());
    done();
  };
}

void fill(net::Loop& loop, kube::Client& client, const Work& work) {
  createNamespace(loop, client, work.ns);
  runInLanes(loop, work.count, work.in_flight, [&](std::size_t number, Function<void()> done) {
    std::string source = format("def echo_{}(text: str) -> str:\n    return text\n", number);
    json::Value server = json::Object{
        {"apiVersion", kaos::kMcpServers.apiVersion()},
        {"kind", kaos::kMcpServers.kind},
        {"metadata", json::Object{{"name", nameOf(number)}, {"namespace", work.ns}}},
        {"spec",
         json::Object{{"type", "python-runtime"},
                      {"config",
                       json::Object{{"tools", json::Object{{"fromString", std::move(source)}}}}}}}};
    return client.create(kaos::kMcpServers, server, {}, finishing(std::move(done)));
  });
}

void foreign(net::Loop& loop, kube::Client& client, const Work& work) {
  createNamespace(loop, client, work.ns);
  runInLanes(loop, work.count, work.in_flight, [&](std::size_t number, Function<void()> done) {
    return client.create(deployments(), deploymentObject(work.ns, nameOf(number), "foreign"), {},
                         finishing(std::move(done)));
  });
  runInLanes(loop, work.count, work.in_flight, [&](std::size_t number, Function<void()> done) {
    json::Value secret =
        json::Object{{"apiVersion", "v1"},
                     {"kind", "Secret"},
                     {"metadata", json::Object{{"name", nameOf(number)}, {"namespace", work.ns}}},
                     {"stringData", json::Object{{"text", std::string(1000, 's')}}}};
    return client.create(kaos::kSecrets, secret, {}, finishing(std::move(done)));
  });
}

// A cluster in which the owner's Deployment and Service have just been made.
class JustMade final : public engine::Source {
 public:
  explicit JustMade(std::string_view owner_uid) : owner_uid_(owner_uid) {}
  State state(const engine::Ref&) override { return State::Known; }
  State state(const kube::Resource&) override { return State::Known; }
  std::optional<json::Value> find(const engine::Ref& ref) override {
    if (ref.resource != kaos::kDeployments && ref.resource != kaos::kServices) return std::nullopt;
    json::Value made =
        json::Object{{"metadata", json::Object{{"name", ref.key.name}, {"generation", 1}}},
                     {"spec", json::Object{{"replicas", 1}}},
                     {"status", json::Object{}}};
    made.make("metadata").make("labels").make(engine::kOwnerUid) = owner_uid_;
    return made;
  }
  std::vector<kube::ObjectKey> keys(const kube::Resource&, const engine::Index&,
                                    const std::string&) override {
    return {};
  }
  engine::Fact observe(const engine::Observation&) override { return {}; }

 private:
  const std::string owner_uid_;
};

// For each object its Deployment, its Service and its status.
std::vector<engine::Write> writesInAdvance(const std::vector<json::Value>& servers, Time now) {
  kaos::Settings settings;
  const engine::Observed nothing = engine::Observed::nothing();
  std::vector<engine::Write> writes;
  for (const json::Value& server : servers) {
    engine::Ref ref{kaos::kMcpServers, kube::ObjectKey::of(server)};
    JustMade made(kube::uid(server));
    engine::World world(made, now);
    engine::Plan plan = kaos::planMcpServer(server, world, settings);
    auto children = engine::reconcileChildren(ref, server, plan, nothing);
    auto status = engine::reconcileStatus(ref, server, plan, {}, now);
    if (children.size() != 2 || !status) fail("a plan is not what the benchmark was made for");
    for (engine::Write& child : children) writes.push_back(std::move(child));
    writes.push_back(*std::move(status));
  }
  return writes;
}

Cost writeAll(net::Loop& loop, kube::Client& client, const Work& work) {
  auto servers = check(net::await<std::vector<json::Value>>(
                           loop,
                           [&](auto done) {
                             return client.list(kaos::kMcpServers, {.select = {.ns = work.ns}},
                                                std::move(done));
                           }),
                       "listing MCPServers");
  if (servers.size() != work.count) fail(format("there are {} MCPServers", servers.size()));
  auto writes = writesInAdvance(servers, SystemClock().now());
  Section section;
  runInLanes(loop, writes.size(), work.in_flight, [&](std::size_t number, Function<void()> done) {
    const engine::Write& write = writes[number];
    if (write.op == engine::Write::Op::Create)
      return client.create(write.ref.resource, write.object, {}, finishing(std::move(done)));
    return client.apply(write.ref.resource, write.object, {.force = true, .subresource = "status"},
                        finishing(std::move(done)));
  });
  return section.cost();
}

json::Array repair(net::Loop& loop, kube::Client& client, const Work& work) {
  Random random = Random::fromSystem();
  SystemClock clock;
  json::Array times;
  std::size_t number = 0;
  Instant gone_at{};
  bool gone = false;
  Pending under_way;
  auto next = [&] {
    if (number == work.count) return loop.stop();
    gone = false;
    kube::ObjectKey key{work.ns, kaos::mcpServerSubject(work.ns, nameOf(number)).workload()};
    under_way = client.remove(kaos::kServices, key, {}, [](Result<json::Value> removed) {
      if (!removed) fail(removed.error().text());
    });
  };
  kube::WatchHandler handler;
  handler.begin = [] {};
  handler.item = [](json::Value) {};
  handler.synced = [&] { next(); };
  handler.failed = [](const Error& error) { fail(error.text()); };
  handler.changed = [&](kube::EventType type, const json::Value& service) {
    if (kube::name(service) != kaos::mcpServerSubject(work.ns, nameOf(number)).workload()) return;
    if (type == kube::EventType::Deleted) {
      gone = true;
      gone_at = clock.instant();
    } else if (type == kube::EventType::Added && gone) {
      times.emplace_back(
          std::chrono::duration<double, std::milli>(clock.instant() - gone_at).count());
      ++number;
      next();
    }
  };
  kube::Watcher watcher(client, {.resource = kaos::kServices, .select = {.ns = work.ns}}, random,
                        std::move(handler));
  Pending limit = loop.after(5min, [] { fail("a Service was not repaired"); });
  loop.run();
  return times;
}

void run(Flags& flags) {
  kube::Config config = configFrom(flags);
  std::string what = flags.text("do", "");
  Work work{.ns = flags.text("ns", "bench"),
            .count = flags.number("count", 1000),
            .in_flight = flags.number("in-flight", 32)};
  flags.end();
  net::Loop loop;
  auto client = check(kube::Client::connect(loop, config, {.user_agent = "bench"}), "connecting");
  if (what == "fill") {
    fill(loop, *client, work);
  } else if (what == "foreign") {
    foreign(loop, *client, work);
  } else if (what == "limit") {
    Cost cost = writeAll(loop, *client, work);
    print({{"seconds", cost.seconds}, {"cpu_seconds", cost.cpu_seconds}});
  } else if (what == "repair") {
    print({{"milliseconds", repair(loop, *client, work)}});
  } else {
    fail(format("there is nothing to do called \"{}\"", what));
  }
}

}  // namespace
}  // namespace cadre::bench

int main(int argc, char** argv) {
  cadre::bench::Flags flags(argc, argv);
  cadre::bench::run(flags);
}

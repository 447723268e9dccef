// The engine under a virtual clock, against an API server whose every answer is written here.
#include "engine/engine.h"

#include "base/format.h"
#include "base/strings.h"
#include "json/parse.h"
#include "json/patch.h"
#include "json/write.h"
#include "kube/testing/fake_transport.h"

namespace cadre::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const kube::Resource kLamps{.group = "test", .version = "v1", .plural = "lamps", .kind = "Lamp"};
const kube::Resource kConfigMaps{.version = "v1", .plural = "configmaps", .kind = "ConfigMap"};
const kube::Resource kSecrets{.version = "v1", .plural = "secrets", .kind = "Secret"};

std::vector<std::string> rooms(const json::Value& object) {
  return {std::string(kube::label(object, "room"))};
}
const Index kByRoom{"room", rooms};
json::Value colorOf(const json::Value& object) { return object["data"]["color"]; }

json::Value object(std::string_view name, int version, std::string_view more = "{}") {
  return json::applyMergePatch(
      json::Object{{"metadata", json::Object{{"name", name},
                                             {"namespace", "ns"},
                                             {"uid", format("uid-{}", name)},
                                             {"generation", 1},
                                             {"resourceVersion", format("{}", version)}}}},
      *json::parse(more));
}

struct Fixture : kube::FakeApi {
  using Sent = kube::FakeTransport::Sent;
  Random random{1};
  Metrics metrics;
  int runs = 0;
  bool any_kind = false;
  bool secrets_by_name = false;
  int writes_left = 1000;  // until the lease is lost
  Function<Plan(const json::Value&, World&)> plan = [](const json::Value&, World&) {
    return Plan();
  };
  std::vector<std::string> calls;
  Function<void(Result<json::Value>)> called;
  int version = 100;
  std::size_t seen = 0;  // of the requests
  std::unique_ptr<Engine> engine;

  void start() {
    EngineOptions options;
    options.kinds.push_back({.resource = kLamps,
                             .plan =
                                 [this](const json::Value& object, World& world) {
                                   ++runs;
                                   return plan(object, world);
                                 },
                             .conditions = {"Ready"},
                             .any_kind = any_kind});
    options.scopes = {{.resource = kConfigMaps, .indexes = {kByRoom}},
                      {.resource = kSecrets, .named = secrets_by_name}};
    options.backoff = {.first = 200ms, .limit = 1min, .factor = 2, .jitter = 0};
    options.hash_secret = [](std::string_view value) { return format("hash of {}", value); };
    options.still_leads = [this] { return writes_left-- >= 0; };
    options.metrics = &metrics;
    options.acts.push_back(
        {.name = "call", .perform = [this](const json::Value& intent, bool resumed, auto done) {
           calls.push_back(format("{} {}", resumed ? "resume" : "begin", intent.string()));
           called = std::move(done);
           return Pending([this] { calls.push_back("end"); });
         }});
    engine = std::make_unique<Engine>(*client, random, std::move(options));
    engine->lead(true);
    scheduler.runReady();
  }
  // Each kind's watch.
  Sent& watch(const kube::Resource& resource) {
    for (auto& sent : watches->sent)
      if (!sent->dropped && sent->request.target.starts_with(resource.path() + "?")) return *sent;
    ADD_FAILURE() << "nobody watches " << resource.kind;
    return *watches->sent.at(0);
  }
  void tell(const kube::Resource& resource, std::string_view type, const json::Value& object) {
    watch(resource).data(json::write(json::Object{{"type", type}, {"object", object}}) + "\n");
    scheduler.runReady();
  }
  void sync(const std::vector<json::Value>& lamps, const std::vector<json::Value>& maps = {}) {
    for (const kube::Resource& resource : {kLamps, kConfigMaps, kSecrets}) {
      watch(resource).head(200);
      for (const json::Value& one : resource == kLamps ? lamps : maps)
        if (resource != kSecrets) tell(resource, "ADDED", one);
      tell(resource, "BOOKMARK", *json::parse(R"({"metadata":{"resourceVersion":"90",
             "annotations":{"k8s.io/initial-events-end":"true"}}})"));
    }
    ASSERT_TRUE(any_kind || engine->synced());
  }
  // What was sent since the last time, as "POST configmaps" or "PATCH lamps/status".
  std::vector<std::string> said() {
    std::vector<std::string> lines;
    for (; seen < requests->sent.size(); ++seen) {
      const net::HttpRequest& request = requests->sent[seen]->request;
      std::string path = request.target.substr(0, request.target.find('?'));
      lines.push_back(format("{} {}", request.method, path.substr(path.find("/ns/") + 4)));
    }
    return lines;
  }
  Sent& last(std::size_t back = 0) { return *requests->sent.at(requests->sent.size() - 1 - back); }
  // What a server makes of it.
  void accept(Sent& sent) {
    json::Value made = *json::parse(sent.request.body);
    std::string name(kube::name(made));
    made.make("metadata").make("uid") = "uid-" + name;
    made.make("metadata").make("generation") = 1;
    made.make("metadata").make("resourceVersion") = format("{}", ++version);
    sent.answer(sent.request.method == "POST" ? 201 : 200, json::write(made));
    scheduler.runReady();
  }
  // The same of a status, with the rest of the object in the answer.
  void acceptStatus(Sent& sent, json::Value of) {
    of.make("status") = (*json::parse(sent.request.body))["status"];
    of.make("metadata").make("resourceVersion") = format("{}", ++version);
    sent.answer(200, json::write(of));
    scheduler.runReady();
  }
  void refuse(Sent& sent, int code, std::string_view reason) {
    sent.answer(code, format(R"({{"kind":"Status","status":"Failure","reason":"{}","code":{}}})",
                             reason, code));
    scheduler.runReady();
  }
  void acceptAll() {
    for (std::size_t at = seen; at < requests->sent.size(); ++at)
      if (!requests->sent[at]->dropped) accept(*requests->sent[at]);
  }
};

Plan withMaps(std::vector<std::string> names) {
  Plan plan;
  for (const std::string& name : names)
    plan.child(kConfigMaps,
               json::Object{{"metadata", json::Object{{"name", name}, {"namespace", "ns"}}}});
  return plan;
}

TEST(Engine, AWriteThatFailedIsTriedAgainWhateverComesBetween) {
  Fixture f;
  f.plan = [](const json::Value&, World&) { return withMaps({"a", "b"}); };
  f.start();
  f.sync({object("desk", 10)});
  EXPECT_THAT(f.said(), ElementsAre("POST configmaps", "POST configmaps"));
  f.refuse(f.last(1), 500, "InternalError");
  f.accept(f.last());  // which runs the plan again, long before the other's time
  EXPECT_THAT(f.said(), IsEmpty()) << "a status would tell of what is not there";
  f.tell(kLamps, "MODIFIED", object("desk", 200));
  f.acceptAll();
  f.said();
  f.scheduler.advance(1s);
  EXPECT_THAT(f.said(), ElementsAre("POST configmaps"));
}

TEST(Engine, Trap42AStatusThatFailedIsTriedAgainWhateverComesBetween) {
  Fixture f;
  f.start();
  f.sync({object("desk", 10)});
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/desk/status"));
  f.refuse(f.last(), 500, "InternalError");
  f.tell(kLamps, "MODIFIED", object("desk", 200));
  EXPECT_THAT(f.said(), IsEmpty()) << "not before its time";
  f.scheduler.advance(1s);
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/desk/status"));
}

TEST(Engine, AListIsReadAgainWhenItsMembersChange) {
  struct Case {
    std::string_view what, labels, data;
    bool runs;
  };
  for (const Case& c :
       {Case{"what the view shows", R"({"room":"hall"})", R"({"color":"blue"})", true},
        Case{"what it does not show", R"({"room":"hall","x":"y"})", R"({"color":"red"})", false},
        Case{"it left", R"({"room":"kitchen"})", R"({"color":"red"})", true}}) {
    Fixture f;
    f.plan = [](const json::Value&, World& world) {
      Plan plan;
      plan.status.set("maps", world.list(kConfigMaps, kByRoom, "hall", {"color", colorOf}).size());
      world.list(kConfigMaps, kByRoom, "cellar", {"color", colorOf});
      return plan;
    };
    f.start();
    json::Value map =
        object("m", 11, R"({"metadata":{"labels":{"room":"hall"}},"data":{"color":"red"}})");
    f.sync({object("desk", 10)}, {map});
    f.acceptAll();
    int runs = f.runs;
    f.tell(
        kConfigMaps, "MODIFIED",
        object("m", 20, format(R"({{"metadata":{{"labels":{}}},"data":{}}})", c.labels, c.data)));
    EXPECT_EQ(f.runs - runs, c.runs ? 1 : 0) << c.what;
  }
}

TEST(Engine, ASecretThatIsAsWantedIsNotWritten) {
  Fixture f;
  f.plan = [](const json::Value&, World&) {
    Plan plan;
    plan.child(kSecrets, *json::parse(R"({"metadata":{"name":"s","namespace":"ns"},
      "data":{"key":"c2VzYW1l"}})"));
    return plan;
  };
  f.start();
  f.sync({object("desk", 10)});
  EXPECT_THAT(f.said(), ElementsAre("POST secrets"));
  f.accept(f.last());
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/desk/status"));
  f.accept(f.last());
  EXPECT_THAT(f.said(), IsEmpty());
  EXPECT_EQ((*f.engine->objectOf({kSecrets, {"ns", "s"}}))["data"]["key"].string(),
            "hash of c2VzYW1l");
}

TEST(Engine, NothingIsSentOnceTheLeaseIsFoundToBeLost) {
  Fixture f;
  f.plan = [](const json::Value&, World&) { return withMaps({"a", "b", "c", "d"}); };
  f.start();
  f.sync({});
  f.writes_left = 2;  // then its time is over, while the others are being sent
  f.tell(kLamps, "ADDED", object("desk", 10));
  EXPECT_THAT(f.said(), IsEmpty()) << "what waits for its turn is given up, too";
  EXPECT_FALSE(f.engine->leads());
  EXPECT_TRUE(f.engine->idle());
}

// An object of the same name that somebody made meanwhile is refused by its uid, and a lease that
// is lost between two steps of one write is noticed before the second.
TEST(Engine, AnApplyIsForOneObjectAndForWhoLeads) {
  for (bool leads : {true, false}) {
    Fixture f;
    f.plan = [](const json::Value&, World&) {
      Plan plan = withMaps({"a"});
      plan.children[0].object.make("data").make("color") = "red";
      return plan;
    };
    f.start();
    f.sync({});
    f.tell(kLamps, "ADDED", object("desk", 10));
    f.accept(f.last());
    f.acceptAll();
    f.said();
    json::Value changed = *f.engine->objectOf({kConfigMaps, {"ns", "a"}});
    changed.make("data").make("color") = "blue";
    changed.make("metadata").make("resourceVersion") = "300";
    f.writes_left = leads ? 1000 : 1;  // asked twice before the first step
    f.tell(kConfigMaps, "MODIFIED", changed);
    ASSERT_THAT(f.said(), ElementsAre("GET configmaps/a")) << "whose fields are they?";
    f.last().answer(200, json::write(changed));
    f.scheduler.runReady();
    if (!leads) {
      EXPECT_THAT(f.said(), IsEmpty());
      EXPECT_FALSE(f.engine->leads());
      continue;
    }
    ASSERT_THAT(f.said(), ElementsAre("PATCH configmaps/a"));
    EXPECT_EQ(kube::uid(*json::parse(f.last().request.body)), "uid-a");
  }
}

TEST(Engine, GivesUpWhatIsUnderWayWhenItNoLongerLeads) {
  Fixture f;
  f.plan = [](const json::Value&, World&) { return withMaps({"a", "b"}); };
  f.start();
  f.sync({object("desk", 10)});
  f.engine->lead(false);
  EXPECT_TRUE(f.last().dropped);
  EXPECT_TRUE(f.last(1).dropped);
  EXPECT_TRUE(f.engine->idle());
  f.said();
  f.tell(kLamps, "MODIFIED", object("desk", 20));
  EXPECT_THAT(f.said(), IsEmpty());
}

TEST(Engine, AnAnswerThatComesAfterTheEndBringsNothingBack) {
  Fixture f;
  f.plan = [](const json::Value&, World&) { return withMaps({"a"}); };
  f.start();
  f.sync({object("desk", 10)});
  Fixture::Sent& post = f.last();
  json::Value made = *json::parse(post.request.body);
  made.make("metadata").make("resourceVersion") = "101";
  f.tell(kConfigMaps, "ADDED", made);
  made.make("metadata").make("resourceVersion") = "102";
  f.tell(kConfigMaps, "DELETED", made);
  f.accept(post);
  EXPECT_FALSE(f.engine->objectOf({kConfigMaps, {"ns", "a"}}));
  EXPECT_THAT(f.said(), ElementsAre("POST configmaps", "POST configmaps")) << "and it is made anew";
}

TEST(Engine, ADefectOfAPlanCostsItsOwnObjectOnly) {
  for (bool throws : {true, false}) {
    Fixture f;
    bool defective = true;
    f.plan = [&](const json::Value& object, World&) {
      Plan plan;
      if (kube::name(object) != "bad" || !defective) return plan;
      if (throws) throw std::out_of_range("no such lamp");
      plan.child({"", "v1", "balloons", "Balloon"}, json::Object{});
      return plan;
    };
    f.start();
    f.sync({object("bad", 10), object("good", 11)});
    EXPECT_THAT(f.said(), ElementsAre("POST events", "PATCH lamps/good/status"));
    EXPECT_THAT(f.last(1).request.body,
                HasSubstr(throws ? "it threw: no such lamp" : "a Balloon, a kind that it has not"));
    f.scheduler.advance(1s);
    EXPECT_GT(f.runs, 2) << "it is tried again";
    EXPECT_THAT(f.said(), IsEmpty()) << "and told once";
    defective = false;
    f.scheduler.advance(10s);
    EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/bad/status"));
  }
}

TEST(Engine, AKindThatIsMetIsWatchedBeforeAnythingIsMadeOfIt) {
  Fixture f;
  f.any_kind = true;
  const kube::Resource balloons{"", "v1", "balloons", "Balloon"};
  f.plan = [&](const json::Value&, World&) {
    Plan plan;
    plan.child(balloons,
               json::Object{{"metadata", json::Object{{"name", "red"}, {"namespace", "ns"}}}});
    return plan;
  };
  f.start();
  f.sync({object("desk", 10)});
  EXPECT_THAT(f.said(), IsEmpty()) << "it may be there already";
  f.watch(balloons).head(200);
  f.tell(balloons, "BOOKMARK", *json::parse(R"({"metadata":{"resourceVersion":"90",
      "annotations":{"k8s.io/initial-events-end":"true"}}})"));
  EXPECT_THAT(f.said(), ElementsAre("POST balloons"));
}

TEST(Engine, AFieldOfTheStatusThatSomebodyElseHoldsIsNotFoughtOver) {
  Fixture f;
  f.start();
  f.sync({object("desk", 10, R"({"status":{"note":"mine"}})")});
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/desk/status"));
  json::Value kept = *json::parse(f.last().request.body);
  kept.make("metadata").make("resourceVersion") = "101";
  kept.make("metadata").make("generation") = 1;
  kept.make("status").make("note") = "mine";  // an apply does not take it away
  f.last().answer(200, json::write(kept));
  f.scheduler.runReady();
  EXPECT_THAT(f.said(), IsEmpty());
  kept.make("metadata").make("resourceVersion") = "102";
  kept.make("metadata").make("labels").make("a") = "b";
  int runs = f.runs;
  f.tell(kLamps, "MODIFIED", kept);
  EXPECT_GT(f.runs, runs);
  EXPECT_THAT(f.said(), IsEmpty());
  kept.make("metadata").make("resourceVersion") = "103";
  kept.make("status").makeObject().erase("observedGeneration");
  f.tell(kLamps, "MODIFIED", kept);
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/desk/status")) << "ours is";
}

Plan calling(const json::Value& object, World& world) {
  Plan plan;
  json::Value said = object["status"]["said"];
  if (const Fact& outcome = world.outcome("1"); outcome.known) said = outcome.value;
  if (said.isNull()) {
    plan.acts.push_back({"1", "call", "ann"});
  } else {
    plan.status.set("said", said);
  }
  return plan;
}

TEST(Engine, AnActBeginsWhenItsIntentIsWrittenAndItsOutcomeIsSeen) {
  Fixture f;
  f.plan = calling;
  f.start();
  f.sync({object("desk", 10)});
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/desk/status"));
  json::Value sent = *json::parse(f.last().request.body);
  EXPECT_EQ(json::write(sent["status"]["acts"]), R"([{"id":"1","intent":"ann","what":"call"}])");
  EXPECT_EQ(kube::resourceVersion(sent), "10") << "not over what another wrote";
  EXPECT_THAT(f.calls, IsEmpty());
  f.accept(f.last());
  EXPECT_THAT(f.calls, ElementsAre("begin ann"));
  f.called(json::Value("hello"));
  f.scheduler.runReady();
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/desk/status"));
  sent = *json::parse(f.last().request.body);
  EXPECT_EQ(sent["status"]["said"].string(), "hello");
  EXPECT_TRUE(sent["status"]["acts"].array().empty());
  f.accept(f.last());
  EXPECT_THAT(f.said(), IsEmpty());
  EXPECT_THAT(f.calls, ElementsAre("begin ann", "end"));
}

// What it knew from its watches may be older than what the one before it did.
TEST(Engine, WhoTakesTheLeadLooksAnewBeforeItWrites) {
  Fixture f;
  f.plan = [](const json::Value& object, World&) {
    return withMaps({object["spec"]["map"].string()});
  };
  f.start();
  f.engine->lead(false);
  f.sync({object("desk", 10, R"({"spec":{"map":"old"}})")});
  EXPECT_THAT(f.said(), IsEmpty());
  f.engine->lead(true);
  f.scheduler.advance(5s);
  EXPECT_THAT(f.said(), IsEmpty());
  f.sync({object("desk", 20, R"({"spec":{"map":"new"}})")});
  ASSERT_THAT(f.said(), ElementsAre("POST configmaps"));
  EXPECT_EQ(kube::name(*json::parse(f.last().request.body)), "new");
}

TEST(Engine, AnActIsResumedAndOnlyWhileWeLead) {
  Fixture f;
  f.plan = calling;
  f.start();
  f.sync({object("desk", 10, R"({"status":{"observedGeneration":1,"conditions":[],
      "acts":[{"id":"1","what":"call","intent":"ann"}]}})")});
  EXPECT_THAT(f.said(), IsEmpty());
  EXPECT_THAT(f.calls, ElementsAre("resume ann"));
  f.engine->lead(false);
  EXPECT_THAT(f.calls, ElementsAre("resume ann", "end"));
  f.tell(kLamps, "MODIFIED", object("desk", 20, R"({"status":{"observedGeneration":1,
      "conditions":[],"acts":[{"id":"1","what":"call","intent":"ann"}]}})"));
  EXPECT_EQ(f.calls.size(), 2u);
  f.engine->lead(true);
  f.scheduler.runReady();
  f.sync({object("desk", 20, R"({"status":{"observedGeneration":1,"conditions":[],
      "acts":[{"id":"1","what":"call","intent":"ann"}]}})")});
  EXPECT_THAT(f.calls, ElementsAre("resume ann", "end", "resume ann"));
  f.tell(kLamps, "DELETED", object("desk", 21));
  EXPECT_EQ(f.calls.back(), "end");
}

TEST(Engine, AnIntentThatMeetsAnotherWriterIsWrittenAnew) {
  Fixture f;
  f.plan = calling;
  f.start();
  f.sync({object("desk", 10)});
  f.tell(kLamps, "MODIFIED", object("desk", 20));
  f.refuse(f.last(), 409, "Conflict");
  f.said();
  f.scheduler.advance(1s);
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/desk/status"));
  EXPECT_EQ(kube::resourceVersion(*json::parse(f.last().request.body)), "20");
  EXPECT_THAT(f.calls, IsEmpty());
}

TEST(Engine, TurnsAreTakenOneAfterTheOther) {
  Fixture f;
  f.plan = [](const json::Value& object, World& world) {
    Plan plan;
    bool done = object["spec"]["done"].boolean();
    bool begun = object["spec"]["begun"].boolean();
    if (!done && world.slot("builds", 1, begun)) plan.status.set("builds", true);
    return plan;
  };
  f.start();
  // The one that has begun comes last, and keeps its turn.
  f.sync({object("a", 10), object("b", 11), object("c", 12, R"({"spec":{"begun":true}})")});
  auto building = [&] {
    std::vector<std::string> names;
    for (; f.seen < f.requests->sent.size(); ++f.seen) {
      auto& sent = *f.requests->sent[f.seen];
      json::Value body = *json::parse(sent.request.body);
      if (body["status"]["builds"].boolean()) names.emplace_back(kube::name(body));
      f.accept(sent);
    }
    return names;
  };
  EXPECT_THAT(building(), ElementsAre("c"));
  f.tell(kLamps, "MODIFIED", object("c", 500, R"({"spec":{"begun":true,"done":true}})"));
  EXPECT_THAT(building(), ElementsAre("a"));
  f.tell(kLamps, "DELETED", object("a", 501));
  EXPECT_THAT(building(), ElementsAre("b"));
}

TEST(Engine, CountsUnderTheNamesThatDashboardsKnow) {
  Fixture f;
  f.plan = [](const json::Value&, World&) { return withMaps({"a", "b"}); };
  f.start();
  // The lines of these names that do not say 0.
  auto shown = [&](std::string_view prefix) {
    f.engine->measure();
    std::vector<std::string> lines;
    std::string text = f.metrics.text();
    for (std::string_view line : split(text, '\n'))
      if (line.starts_with(prefix) && !line.ends_with(" 0") &&
          line.find("_bucket") == std::string_view::npos)
        lines.emplace_back(line);
    return lines;
  };
  std::string text = f.metrics.text();
  for (std::string_view series :
       {R"(controller_runtime_reconcile_total{controller="lamp",result="requeue_after"} 0)",
        R"(controller_runtime_reconcile_errors_total{controller="lamp"} 0)",
        R"(controller_runtime_max_concurrent_reconciles{controller="lamp"} 32)",
        R"(controller_runtime_reconcile_time_seconds_count{controller="lamp"} 0)",
        R"(workqueue_depth{name="lamp"} 0)", R"(workqueue_retries_total{name="lamp"} 0)",
        R"(cadre_writes_total{kind="ConfigMap",op="create"} 0)",
        R"(cadre_writes_total{kind="Lamp",op="status"} 0)",
        R"(cadre_differences_accepted_total{kind="ConfigMap"} 0)"})
    EXPECT_THAT(text, HasSubstr(series)) << "from the start";
  EXPECT_THAT(text, Not(HasSubstr(R"(kind="ConfigMap",op="status")")));

  f.sync({object("desk", 10)});
  f.scheduler.advance(2s);
  EXPECT_THAT(shown("workqueue_"),
              ElementsAre(R"(workqueue_adds_total{name="lamp"} 1)",
                          R"(workqueue_longest_running_processor_seconds{name="lamp"} 2)",
                          R"(workqueue_queue_duration_seconds_count{name="lamp"} 1)",
                          R"(workqueue_unfinished_work_seconds{name="lamp"} 2)"));
  EXPECT_THAT(shown("controller_runtime_active"),
              ElementsAre(R"(controller_runtime_active_workers{controller="lamp"} 1)"));
  f.refuse(f.last(1), 500, "InternalError");
  f.accept(f.last());
  f.acceptAll();
  f.scheduler.advance(1s);
  f.acceptAll();
  EXPECT_THAT(shown("controller_runtime_reconcile_errors"),
              ElementsAre(R"(controller_runtime_reconcile_errors_total{controller="lamp"} 1)"));
  EXPECT_THAT(shown("controller_runtime_active"), IsEmpty());
  EXPECT_THAT(shown("workqueue_retries"), ElementsAre(R"(workqueue_retries_total{name="lamp"} 1)"));
  EXPECT_THAT(shown("workqueue_depth"), IsEmpty());
  EXPECT_THAT(shown("cadre_writes"),
              ElementsAre(R"(cadre_writes_total{kind="ConfigMap",op="create"} 3)",
                          R"(cadre_writes_total{kind="Lamp",op="status"} 1)"));
}

// A child that cannot be made is told, also where nothing else makes the plan look again.
TEST(Engine, WhatCannotBeMadeIsTold) {
  for (bool refused : {true, false}) {
    Fixture f;
    f.plan = [](const json::Value&, World& world) {
      Plan plan = withMaps({"a"});
      bool made = world.troubles().empty();
      plan.condition("Ready", made, made ? "Fine" : world.troubles()[0].reason);
      return plan;
    };
    f.start();
    f.sync({object("desk", 10)});
    std::string said;
    for (int tries = 0; tries < 4; ++tries) {
      for (; f.seen < f.requests->sent.size(); ++f.seen) {
        auto& sent = *f.requests->sent[f.seen];
        if (sent.request.method == "POST") {
          f.refuse(sent, refused ? 422 : 500, refused ? "Invalid" : "InternalError");
        } else {
          said = sent.request.body;
          f.accept(sent);
        }
      }
      f.scheduler.advance(5s);
    }
    EXPECT_THAT(said, HasSubstr("ChildRejected")) << refused;
  }
}

TEST(Engine, WhatTheServerRefusesIsMadeAnewAndNotWhatAWebhookRefuses) {
  struct Case {
    int code;
    std::string_view reason, message;
    bool replaces;
  };
  for (const Case& c : {Case{422, "Invalid", "data: Forbidden: field is immutable", true},
                        Case{422, "Invalid", "admission webhook \\\"x\\\" denied it", false},
                        Case{400, "BadRequest", "admission webhook \\\"x\\\" denied it", false},
                        Case{403, "Forbidden", "exceeded quota", false}}) {
    Fixture f;
    f.plan = [](const json::Value&, World&) {
      Plan plan = withMaps({"a"});
      plan.children[0].object.make("data") = json::Object{{"color", "red"}};
      plan.children[0].immutable = Child::Immutable::Replace;
      return plan;
    };
    f.start();
    f.sync({object("desk", 10)},
           {object("a", 5, R"({"metadata":{"annotations":{"cadre.dev/applied":"a:x"},
      "labels":{"app.kubernetes.io/managed-by":"cadre","cadre.dev/owner-uid":"uid-desk"}}})")});
    std::vector<std::string> said;
    for (int steps = 0; steps < 4 && f.seen < f.requests->sent.size(); ++steps) {
      auto& sent = *f.requests->sent[f.seen++];
      if (sent.request.target.find("configmaps") == std::string::npos) continue;
      said.push_back(sent.request.method);
      if (sent.request.method == "GET")
        sent.answer(200, R"({"metadata":{"name":"a","namespace":"ns"}})");
      else
        sent.answer(c.code,
                    format(R"({{"kind":"Status","apiVersion":"v1","reason":"{}","message":"{}"}})",
                           c.reason, c.message));
      f.scheduler.runReady();
    }
    if (c.replaces)
      EXPECT_THAT(said, ElementsAre("PATCH", "GET", "PATCH", "DELETE")) << c.message;
    else
      EXPECT_THAT(said, ElementsAre("PATCH")) << c.message;
  }
}

// Somebody else's write comes between: nobody has refused anything.
TEST(Engine, FieldsAreTakenOverAsSoonAsTheObjectKeepsStill) {
  Fixture f;
  f.plan = [](const json::Value&, World& world) {
    Plan plan = withMaps({"a"});
    plan.children[0].object.make("data") = json::Object{{"color", "red"}};
    plan.condition("Ready", world.troubles().empty(), "Fine");
    return plan;
  };
  f.start();
  f.sync({object("desk", 10)},
         {object("a", 5, R"({"metadata":{"annotations":{"cadre.dev/applied":"c:x"},
      "labels":{"app.kubernetes.io/managed-by":"cadre","cadre.dev/owner-uid":"uid-desk"}}})")});
  std::vector<std::string> said;
  int conflicts = 2;
  for (int steps = 0; steps < 20 && f.seen < f.requests->sent.size(); ++steps) {
    auto& sent = *f.requests->sent[f.seen++];
    if (sent.request.target.find("configmaps") == std::string::npos) {
      EXPECT_THAT(sent.request.body, HasSubstr(R"("status":"True")"));
      f.accept(sent);
      continue;
    }
    bool takes = sent.request.body.find("managedFields") != std::string::npos;
    said.push_back(format("{}{}", sent.request.method, takes ? " fields" : ""));
    if (sent.request.method == "GET")
      sent.answer(200, R"({"metadata":{"name":"a","namespace":"ns","resourceVersion":"7",
        "managedFields":[{"manager":"cadre","operation":"Update","fieldsV1":{"f:data":{}}}]}})");
    else if (takes && conflicts-- > 0)
      sent.answer(409, R"({"kind":"Status","apiVersion":"v1","reason":"Conflict"})");
    else
      f.accept(sent);
    f.scheduler.runReady();
  }
  EXPECT_THAT(said, ElementsAre("GET", "PATCH fields", "GET", "PATCH fields", "GET", "PATCH fields",
                                "PATCH"));
}

// What is held back is not told as if it was done.
TEST(Engine, AStatusWaitsForChildrenThatHaveToBeTriedAgain) {
  Fixture f;
  f.plan = [](const json::Value& object, World& world) {
    Plan plan = withMaps({"a"});
    plan.children[0].object.make("data") = json::Object{{"color", object["spec"]["color"]}};
    bool fine = world.troubles().empty();
    plan.condition("Ready", fine, fine ? "Fine" : world.troubles()[0].reason);
    return plan;
  };
  f.start();
  json::Value lamp = object("desk", 10, R"({"spec":{"color":"red"}})");
  f.sync({lamp});
  std::vector<std::string> told;
  bool refuses = false;
  auto serve = [&] {
    for (; f.seen < f.requests->sent.size(); ++f.seen) {
      auto& sent = *f.requests->sent[f.seen];
      if (sent.request.target.find("status") != std::string::npos) {
        bool rejected = sent.request.body.find("ChildRejected") != std::string::npos;
        told.push_back(rejected ? "rejected" : "fine");
        f.acceptStatus(sent, lamp);
      } else if (refuses) {
        f.refuse(sent, 500, "InternalError");
      } else {
        f.accept(sent);
      }
    }
  };
  serve();
  EXPECT_THAT(told, ElementsAre("fine"));
  refuses = true;
  lamp = object("desk", 300, R"({"spec":{"color":"blue"},"metadata":{"generation":2}})");
  f.tell(kLamps, "MODIFIED", lamp);
  for (int tries = 0; tries < 6; ++tries) {
    serve();
    f.scheduler.advance(2s);
  }
  ASSERT_GT(told.size(), 1u);
  told.erase(told.begin());
  EXPECT_THAT(told, testing::Each("rejected"));
}

// Changes of ours are no fight, however many there are.
TEST(Engine, ManyChangesOfAPlanAreAppliedAtOnce) {
  Fixture f;
  f.plan = [](const json::Value& object, World&) {
    Plan plan = withMaps({"a"});
    plan.children[0].object.make("data") = json::Object{{"color", object["spec"]["color"]}};
    return plan;
  };
  f.start();
  json::Value lamp = object("desk", 10, R"({"spec":{"color":"0"}})");
  f.sync({lamp});
  int changes = 0;
  auto serve = [&] {
    for (; f.seen < f.requests->sent.size(); ++f.seen) {
      auto& sent = *f.requests->sent[f.seen];
      changes += sent.request.body.find("color") != std::string::npos;
      if (sent.request.method == "GET") {
        sent.answer(200, R"({"metadata":{"name":"a","namespace":"ns","resourceVersion":"7"}})");
        f.scheduler.runReady();
      } else if (sent.request.target.find("status") != std::string::npos) {
        f.acceptStatus(sent, lamp);
      } else {
        f.accept(sent);
      }
    }
  };
  for (int i = 1; i <= 30; ++i) {
    serve();
    lamp = object("desk", 1000 * i, format(R"({{"spec":{{"color":"{}"}}}})", i));
    f.tell(kLamps, "MODIFIED", lamp);
  }
  serve();
  EXPECT_EQ(changes, 31);
}

// Who undoes what we do is not fought with at full speed, and it is told.
TEST(Engine, RepairsGetSlowerWhenTheyDoNotLast) {
  Fixture f;
  bool contested = false;
  f.plan = [&](const json::Value&, World& world) {
    Plan plan = withMaps({"a"});
    plan.children[0].object.make("data") = json::Object{{"color", "red"}};
    contested |= !world.troubles().empty() && world.troubles()[0].reason == "ChildContested";
    return plan;
  };
  f.start();
  f.sync({object("desk", 10)});
  int repairs = 0;
  for (int step = 0; step < 200; ++step) {  // ten seconds
    for (; f.seen < f.requests->sent.size(); ++f.seen) {
      auto& sent = *f.requests->sent[f.seen];
      repairs +=
          sent.request.body.find("red") != std::string::npos && sent.request.method == "PATCH";
      if (sent.request.method == "GET")
        sent.answer(200, R"({"metadata":{"name":"a","namespace":"ns","resourceVersion":"7"}})");
      else
        f.accept(sent);
      f.scheduler.runReady();
    }
    json::Value map = object("a", 1000 + step, R"({"data":{"color":"blue"},"metadata":{
      "annotations":{"cadre.dev/applied":"a:x"},
      "labels":{"app.kubernetes.io/managed-by":"cadre","cadre.dev/owner-uid":"uid-desk"}}})");
    f.tell(kConfigMaps, "MODIFIED", map);
    f.scheduler.advance(50ms);
  }
  EXPECT_GE(repairs, 10) << "at first at once";
  EXPECT_LE(repairs, 20);
  EXPECT_TRUE(contested);
}

// All look at something that is not known yet, while writes of others end.
TEST(Engine, ManyThatLookInVainHoldUpNobody) {
  Fixture f;
  f.secrets_by_name = true;
  f.plan = [](const json::Value& object, World& world) {
    if (kube::name(object).starts_with("waits")) world.get(kSecrets, {"ns", "key"});
    return kube::name(object).starts_with("waits") ? Plan() : withMaps({"a"});
  };
  f.start();
  std::vector<json::Value> lamps{object("good", 10)};
  for (int i = 0; i < 40; ++i) lamps.push_back(object(format("waits-{}", i), 11 + i));
  f.sync(lamps);
  ASSERT_THAT(f.said(), ElementsAre("POST configmaps"));
  f.accept(f.last());  // whose end looks for more to do
  f.scheduler.advance(1s);
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/good/status"));
  f.acceptAll();
  f.tell(kLamps, "ADDED", object("late", 400));
  f.scheduler.advance(1s);
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/late/status")) << "the name is taken, it says";
}

// The children of an object that was deleted and made anew may still be there, as the old one's.
TEST(Engine, ANameThatIsTakenIsLookedAtAgainWhenItIsFree) {
  Fixture f;
  f.plan = [](const json::Value&, World& world) {
    Plan plan = withMaps({"a"});
    plan.condition("Ready", world.troubles().empty(), "NameConflict");
    return plan;
  };
  f.start();
  json::Value old = object("a", 5, R"({"metadata":{
      "labels":{"app.kubernetes.io/managed-by":"cadre","cadre.dev/owner-uid":"uid-old"},
      "ownerReferences":[{"apiVersion":"test/v1","kind":"Lamp","name":"desk","uid":"uid-old",
                          "controller":true}]}})");
  f.sync({object("desk", 10)}, {old});
  EXPECT_THAT(f.said(), ElementsAre("PATCH lamps/desk/status"));
  EXPECT_THAT(f.last().request.body, HasSubstr(R"("status":"False")"));
  f.accept(f.last());
  old.make("metadata").make("resourceVersion") = "200";
  f.tell(kConfigMaps, "DELETED", old);
  EXPECT_THAT(f.said(), ElementsAre("POST configmaps"));
}

// Its owner is gone, say, and we have not heard of it: then it is collected as often as it is made.
TEST(Engine, AChildThatGoesAgainAndAgainIsMadeWithPatience) {
  Fixture f;
  f.plan = [](const json::Value&, World&) { return withMaps({"a"}); };
  f.start();
  f.sync({object("desk", 10)});
  std::vector<Instant> made;
  for (int i = 0; i < 100; ++i) {
    for (std::size_t end = f.requests->sent.size(); f.seen < end;) {
      Fixture::Sent& sent = *f.requests->sent[f.seen++];
      if (!sent.dropped) f.accept(sent);
      if (sent.request.method != "POST") continue;
      made.push_back(f.scheduler.clock().instant());
      json::Value gone = *json::parse(sent.request.body);
      gone.make("metadata").make("resourceVersion") = format("{}", ++f.version);
      f.tell(kConfigMaps, "DELETED", gone);
    }
    f.scheduler.advance(100ms);
  }
  ASSERT_GE(made.size(), 4u);
  EXPECT_LE(made[1] - made[0], 200ms) << "once it is repaired at once";
  EXPECT_LT(made.size(), 12u);
}

// Somebody edits an object (version 101) just before our status is written (version 102). The watch
// may tell of both, of one or of none before the answer comes.
TEST(Engine, AnEditJustBeforeAStatusWriteIsLookedAt) {
  // Edited to something else, or to and fro: then only the generation tells.
  for (std::string_view color : {"blue", "red"})
    for (int before = 0; before <= 2; ++before) {
      json::Value edited = object(
          "a", 101, format(R"({{"spec":{{"color":"{}"}},"metadata":{{"generation":3}}}})", color));
      json::Value written =
          json::applyMergePatch(edited, *json::parse(R"({"metadata":{"resourceVersion":"102"},
                   "status":{"color":"red","observedGeneration":1,"conditions":[]}})"));
      Fixture f;
      f.plan = [](const json::Value& object, World&) {
        Plan plan;
        plan.status.set("color", object["spec"]["color"]);
        return plan;
      };
      f.start();
      f.sync({object("a", 1, R"({"spec":{"color":"red"}})")});
      ASSERT_THAT(f.said(), ElementsAre("PATCH lamps/a/status"));
      Fixture::Sent& patch = f.last();
      if (before >= 1) f.tell(kLamps, "MODIFIED", edited);
      if (before >= 2) f.tell(kLamps, "MODIFIED", written);
      patch.answer(200, json::write(written));
      f.scheduler.runReady();
      if (before < 1) f.tell(kLamps, "MODIFIED", edited);
      if (before < 2) f.tell(kLamps, "MODIFIED", written);
      ASSERT_THAT(f.said(), ElementsAre("PATCH lamps/a/status")) << before;
      EXPECT_THAT(f.last().request.body, HasSubstr(color)) << before;
      EXPECT_THAT(f.last().request.body, HasSubstr(R"("observedGeneration":3)")) << before;
    }
}

}  // namespace
}  // namespace cadre::engine

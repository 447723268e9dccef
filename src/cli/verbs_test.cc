// The everyday verbs as whole command lines, on a hub of their own.
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/cluster.h"
#include "cli/hub_host.h"
#include "hub/request.h"

namespace cadre::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int code;
  std::string out, err;
};

// A hub on a thread of its own, since a command runs a loop of its own.
class VerbsTest : public testing::Test {
 protected:
  VerbsTest() {
    auto opened = HubHost::open(loop_, {.data = folder_.string(), .fast = true},
                                [this](const hub::Asked& asked, const json::Value& pod,
                                       std::shared_ptr<net::ServerRequest> request) {
                                  answerLog(asked, pod, std::move(request));
                                });
    EXPECT_TRUE(opened.ok()) << (opened ? "" : opened.error().text());
    host_ = *std::move(opened);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~VerbsTest() override {
    loop_.post([this] { loop_.stop(); });  // not before it runs
    thread_.join();
    host_.reset();
    std::filesystem::remove_all(folder_);
  }

  // What a verb says to some words.
  struct Said {
    std::vector<std::string> words;
    int code;
    std::string out, err;
  };
  void check(const std::string& verb, const Said& expected) {
    std::vector<std::string> words{verb};
    words.insert(words.end(), expected.words.begin(), expected.words.end());
    Outcome ran = cadre(words);
    SCOPED_TRACE(join(words, " "));
    EXPECT_EQ(ran.code, expected.code) << ran.err;
    EXPECT_EQ(ran.out, expected.out);
    EXPECT_THAT(ran.err, HasSubstr(expected.err));
  }

  Outcome cadre(std::vector<std::string> words, Function<void()> said_something = [] {}) {
    Outcome outcome;
    Surroundings surroundings{.env = {},
                              .out = [&](std::string_view text) { outcome.out += text; },
                              .err =
                                  [&](std::string_view text) {
                                    outcome.err += text;
                                    said_something();
                                  },
                              .patience = 20ms};
    words.insert(words.end(), {"--kubeconfig", host_->kubeconfig()});
    outcome.code = run(words, surroundings);
    return outcome;
  }
  // Without telling where the hub is.
  Outcome plain(const std::vector<std::string>& words) {
    Outcome outcome;
    Surroundings surroundings{.env = {},
                              .out = [&](std::string_view text) { outcome.out += text; },
                              .err = [&](std::string_view text) { outcome.err += text; }};
    outcome.code = run(words, surroundings);
    return outcome;
  }
  const std::string& kubeconfig() const { return host_->kubeconfig(); }

  std::string file(const std::string& name, const std::string& text) {
    std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  // Applies what must be right.
  void given(const std::string& text) {
    Outcome applied = cadre({"apply", "--force-conflicts", "-f", file("given.yaml", text)});
    EXPECT_EQ(applied.code, 0) << applied.err;
  }

  // What a node would say of an object: "pods/web".
  void status(const std::string& what, const std::string& status) {
    auto cluster = Cluster::connect({.kubeconfig = host_->kubeconfig()}, Surroundings{});
    ASSERT_TRUE(cluster.ok());
    auto written = (*cluster)->await<json::Value>([&](auto done) {
      return (*cluster)->client->request(
          "PATCH", format("/api/v1/namespaces/default/{}/status", what),
          format(R"({{"status":{}}})", status), "application/merge-patch+json", std::move(done));
    });
    EXPECT_TRUE(written.ok()) << (written ? "" : written.error().text());
  }

  // What containers have printed, by "pod container"; a log that is asked for and not there is
  // refused.
  void printed(std::map<std::string, std::string> logs) {
    std::lock_guard lock(mutex_);
    logs_ = std::move(logs);
  }
  // The options of the last log that was asked for.
  std::string asked() {
    std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void answerLog(const hub::Asked& asked, const json::Value& pod,
                 std::shared_ptr<net::ServerRequest> request) {
    std::lock_guard lock(mutex_);
    asked_ = format("previous={:d} tailLines={} sinceSeconds={} timestamps={:d} follow={:d}",
                    asked.flag("previous"), asked.option("tailLines"), asked.option("sinceSeconds"),
                    asked.flag("timestamps"), asked.flag("follow"));
    auto found =
        logs_.find(format("{} {}", pod["metadata"]["name"].string(), asked.option("container")));
    if (found == logs_.end())
      return request->respond(400, {{"content-type", "application/json"}},
                              R"({"kind":"Status","apiVersion":"v1","status":"Failure","code":400,)"
                              R"("reason":"BadRequest","message":"waiting to start"})");
    request->respond(200, {{"content-type", "text/plain"}}, found->second);
  }

  std::mutex mutex_;  // for what the hub's thread and the test's share
  std::map<std::string, std::string> logs_;
  std::string asked_;
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / format("cadre-verbs-test-{}", ::getpid());
  net::Loop loop_;
  std::unique_ptr<HubHost> host_;
  std::thread thread_;
};

constexpr const char* kColors = R"(
apiVersion: v1
kind: ConfigMap
metadata: {name: colors, labels: {app: paint}}
data: {wall: white}
)";

TEST_F(VerbsTest, AppliesAndSaysWhatBecameOfIt) {
  std::string path = file("colors.yaml", kColors);
  Outcome first = cadre({"apply", "-f", path});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, "configmap/colors created\n");
  EXPECT_EQ(cadre({"apply", "-f", path}).out, "configmap/colors unchanged\n");
  file("colors.yaml", std::string(kColors) + "---\n" + R"(
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}
)");
  EXPECT_EQ(cadre({"apply", "-f", path, "--dry-run"}).out,
            "configmap/colors unchanged (dry run)\ndeployment.apps/web created (dry run)\n");
  EXPECT_EQ(cadre({"apply", "-f", path}).out,
            "configmap/colors unchanged\ndeployment.apps/web created\n");
  file("colors.yaml",
       "{apiVersion: v1, kind: ConfigMap, metadata: {name: colors}, data: {wall: b}}");
  EXPECT_EQ(cadre({"apply", "-f", path, "--dry-run"}).out,
            "configmap/colors configured (dry run)\n");
  EXPECT_EQ(cadre({"apply", "-f", path}).out, "configmap/colors configured\n");
  EXPECT_EQ(cadre({"get", "cm", "colors", "-l", ""}).code, 0);
}

TEST_F(VerbsTest, DefinitionsAndNamespacesComeFirst) {
  std::string folder = std::filesystem::path(file("all/a-widget.yaml", R"(
apiVersion: example.com/v1
kind: Widget
metadata: {name: one, namespace: shop}
spec: {size: 3}
)"))
                           .parent_path()
                           .string();
  file("all/b-rest.yaml", R"(
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
)");
  Outcome dry = cadre({"apply", "-f", folder, "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("widget.example.com/one not checked: "));
  Outcome applied = cadre({"apply", "-f", folder});
  EXPECT_EQ(applied.code, 0) << applied.err;
  EXPECT_EQ(applied.out,
            "namespace/shop created\n"
            "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created\n"
            "widget.example.com/one created\n");
  Outcome gone = cadre({"delete", "-f", folder, "--timeout", "30s"});
  EXPECT_EQ(gone.code, 0) << gone.err;
  EXPECT_THAT(gone.out, AllOf(HasSubstr("widget.example.com/one deleted\n"),
                              HasSubstr("namespace/shop deleted\n")));
  EXPECT_EQ(cadre({"delete", "-f", folder}).code, 1);
  EXPECT_EQ(cadre({"delete", "-f", folder, "--ignore-not-found"}).code, 0);
}

TEST_F(VerbsTest, ConflictsAreToldWithTheirOwner) {
  std::string path = file("colors.yaml", kColors);
  cadre({"apply", "-f", path});
  std::string mine =
      file("mine.yaml",
           "{apiVersion: v1, kind: ConfigMap, metadata: {name: colors}, data: {wall: blue}}");
  Outcome other = cadre({"apply", "-f", mine, "--field-manager", "other"});
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(
      other.err,
      format("cadre: {}:1: configmap/colors is not applied, others own fields of it: .data.wall "
             "(cadre); leave them out of the file, or take them over with --force-conflicts\n",
             mine));
  EXPECT_EQ(cadre({"apply", "-f", mine, "--field-manager", "other", "--force-conflicts"}).out,
            "configmap/colors configured\n");
}

TEST_F(VerbsTest, WhatIsWrongWithOneObjectKeepsNoOtherFromBeingApplied) {
  struct Case {
    std::string object, said;
  };
  for (const Case& c : std::vector<Case>{
           {"{a: 1}", "this is no object: give it an apiVersion and a kind"},
           {"{apiVersion: v1, kind: ConfigMap}", "this ConfigMap has no name: give it one"},
           {"{apiVersion: v9, kind: ConfigMap, metadata: {name: a}}",
            "there is no kind v9 ConfigMap here: apply its definition first, or check its "
            "apiVersion"},
           {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}",
            "configmap/a names the namespace other, and -n says default: leave one of them out"},
           {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dat: {}}", "dat"}}) {
    std::string path = file("wrong.yaml", c.object + "\n---\n" + kColors);
    Outcome applied = cadre({"apply", "-f", path, "-n", "default"});
    EXPECT_EQ(applied.code, 2);
    EXPECT_THAT(applied.err, AllOf(HasSubstr(path + ":1: "), HasSubstr(c.said)));
    EXPECT_THAT(applied.out, testing::StartsWith("configmap/colors "));
  }
  EXPECT_EQ(cadre({"apply", "-f", file("none.yaml", "")}).code, 1);
  EXPECT_EQ(cadre({"apply", "-f", "/nowhere.yaml"}).code, 2);
}

TEST_F(VerbsTest, DeletesByNameBySelectorAndAll) {
  given(std::string(kColors) +
        "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {app: paint}}}\n"
        "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: two}}\n"
        "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: three}}\n"
        "---\n{apiVersion: v1, kind: Secret, metadata: {name: three}}\n");
  EXPECT_EQ(cadre({"delete", "cm", "-l", "app=paint"}).out,
            "configmap/colors deleted\nconfigmap/one deleted\n");
  EXPECT_EQ(cadre({"delete", "cm/three", "secret/three"}).out,
            "configmap/three deleted\nsecret/three deleted\n");
  EXPECT_EQ(cadre({"delete", "cm", "--all", "--wait=false"}).out, "configmap/two deleted\n");
}

TEST_F(VerbsTest, DeleteSaysWhatIsWrong) {
  struct Case {
    std::vector<std::string> words;
    int code;
    std::string said;
  };
  for (const Case& c : std::vector<Case>{
           {{"delete"}, 2, "say what: `cadre delete KIND NAME`"},
           {{"delete", "pods"}, 2, "say which pods: give names, a selector with -l, or --all"},
           {{"delete", "pods", "web"},
            1,
            "pod/web is not there in namespace default; `cadre get pods` shows what is"},
           {{"delete", "pods", "web", "--ignore-not-found"}, 0, ""},
           {{"delete", "pods", "-l", "a=b"}, 1, "no pods found in namespace default"},
           {{"delete", "pods", "-l", "a=b", "--ignore-not-found"}, 0, "no pods found"},
           {{"delete", "pods", "web", "-A"}, 2, "a name needs one namespace"},
           {{"delete", "pods", "web", "--all"}, 2, "names exclude a selector and --all"},
           {{"delete", "nothing", "web"}, 2, "the cluster serves no \"nothing\""},
           {{"delete", "pods", "web", "--timeout", "soon"}, 2, "\"soon\" is no length of time"},
           {{"delete", "pods", "web", "--cascade", "all"}, 2, "--cascade"}}) {
    Outcome ran = cadre(c.words);
    EXPECT_EQ(ran.code, c.code) << c.said;
    EXPECT_THAT(ran.err, HasSubstr(c.said));
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(VerbsTest, DeleteSaysWhatHoldsAnObject) {
  given(
      "{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}");
  EXPECT_EQ(cadre({"delete", "cm", "held", "--wait=false"}).out, "configmap/held is going\n");
  Outcome ran = cadre({"delete", "cm", "held", "--timeout", "200ms"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(
      ran.err,
      "configmap/held: still held by the finalizer example.com/hold\n"
      "cadre: configmap/held is not gone after 200ms: still held by the finalizer "
      "example.com/hold; see what its controller says, or give it more time with --timeout\n");
  std::promise<void> held;
  auto waits = std::async(std::launch::async, [&] {
    return cadre({"delete", "cm", "held"}, [&] { held.set_value(); });
  });
  held.get_future().wait();
  // An apply without the finalizer takes it away.
  given("{apiVersion: v1, kind: ConfigMap, metadata: {name: held}}");
  EXPECT_EQ(waits.get().out, "configmap/held deleted\n");
}

TEST_F(VerbsTest, WhatIsOwnedGoesOrStays) {
  for (std::string cascade : {"background", "foreground", "orphan"}) {
    given(format("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {}}}}}", cascade));
    std::string yaml = cadre({"get", "cm", cascade, "-o", "yaml"}).out;
    std::string uid = yaml.substr(yaml.find("uid: ") + 5, 36);
    given(format(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: {}, ownerReferences: [{{apiVersion: "
        "v1, kind: ConfigMap, name: {}, uid: {}, blockOwnerDeletion: true}}]}}}}",
        cascade, cascade, uid));
    EXPECT_EQ(cadre({"delete", "cm", cascade, "--cascade", cascade}).code, 0);
    // What is owned may go a moment later.
    Outcome gone = cadre({"wait", "secret", cascade, "--for", "delete", "--timeout",
                          cascade == "orphan" ? "100ms" : "30s"});
    EXPECT_EQ(gone.code, cascade == "orphan" ? 1 : 0) << gone.err;
  }
}

// ---- wait

constexpr const char* kWebPod = R"(
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: main, image: web}, {name: side, image: side}]}
)";

TEST_F(VerbsTest, WaitsForWhatHolds) {
  given(std::string(kColors) + "---\n" + kWebPod);
  status("pods/web", R"({"phase":"Pending","conditions":[{"type":"Ready","status":"False",
      "reason":"ContainersNotReady","message":"main is not ready"},{"type":"Scheduled","status":"True"}]})");
  for (const Said& c : std::vector<Said>{
           {{"pod/web", "--for", "condition=Scheduled"}, 0, "pod/web condition met\n", ""},
           {{"pod/web", "--for", "condition=Ready=false"}, 0, "pod/web condition met\n", ""},
           {{"pods", "--all", "--for", "jsonpath={.status.phase}=Pending"},
            0,
            "pod/web condition met\n",
            ""},
           {{"pods", "-l", "app=web", "--for",
             "jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}"},
            0,
            "pod/web condition met\n",
            ""},
           {{"cm", "colors", "--for", "jsonpath=.data.wall=white"},
            0,
            "configmap/colors condition met\n",
            ""},
           {{"cm", "colors", "--for", "create"}, 0, "configmap/colors condition met\n", ""},
           {{"cm", "none", "--for", "delete"}, 0, "configmap/none deleted\n", ""},
           {{"cm", "none", "--for", "create", "--timeout", "100ms"}, 1, "", "it is not there"},
           {{"pod/web", "--for", "condition=Ready", "--timeout", "100ms"},
            1,
            "",
            "pod/web after 100ms: Ready is False: ContainersNotReady: main is not ready; look at "
            "`cadre describe pod/web`"},
           {{"pod/web", "--for", "condition=Nice", "--timeout", "100ms"},
            1,
            "",
            "it has no condition Nice yet"},
           {{"pod/web", "--for", "jsonpath={.status.phase}=Running", "--timeout", "100ms"},
            1,
            "",
            ".status.phase is Pending"},
           {{"pod/none", "--for", "condition=Ready"}, 1, "", "pod/none is not there"},
           {{"pods", "-l", "a=b", "--for", "condition=Ready"}, 1, "", "no pods found"},
           {{"pods", "--for", "condition=Ready"}, 2, "", "say which pods"},
           {{"pod/web", "--for", "luck"}, 2, "", "--for luck: it is condition=NAME"},
           {{"pod/web", "--for", "jsonpath={.a"}, 2, "", "a brace is not closed"}}) {
    check("wait", c);
  }
}

TEST_F(VerbsTest, WaitSeesAChangeAndADeletion) {
  given(kWebPod);
  for (bool deleted : {false, true}) {
    std::promise<void> waiting;
    auto waits = std::async(std::launch::async, [&] {
      bool told = false;
      return cadre({"wait", "pod/web", "--for", deleted ? "condition=Gone" : "condition=Ready"},
                   [&] {
                     if (!std::exchange(told, true)) waiting.set_value();
                   });
    });
    waiting.get_future().wait();
    if (deleted)
      EXPECT_EQ(cadre({"delete", "pod", "web"}).code, 0);
    else
      status("pods/web", R"({"conditions":[{"type":"Ready","status":"True"}]})");
    Outcome ran = waits.get();
    EXPECT_EQ(ran.code, deleted ? 1 : 0);
    EXPECT_THAT(ran.out + ran.err,
                HasSubstr(deleted ? "pod/web was deleted meanwhile" : "pod/web condition met\n"));
  }
}

// ---- events

TEST_F(VerbsTest, ShowsEventsOfBothKindsByTime) {
  given(kWebPod);
  given(R"(
apiVersion: v1
kind: Event
metadata: {name: a}
involvedObject: {kind: Pod, name: web, apiVersion: v1}
type: Warning
reason: BackOff
message: "it ended\e[31m"
count: 3
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-02T00:00:00Z"
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: b}
regarding: {kind: Deployment, name: web, apiVersion: apps/v1}
type: Normal
reason: Scaled
action: Scale
reportingController: test
reportingInstance: test-1
note: to three
eventTime: "2026-01-01T12:00:00.000000Z"
)");
  Outcome all = cadre({"events"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out,
              testing::MatchesRegex("LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n"
                                    "[0-9dhy]+ +Normal +Scaled +deployment/web +to three\n"
                                    "[0-9dhy]+ .x3 over [0-9dhy]+. +Warning +BackOff +pod/web +"
                                    "it ended .31m\n"));
  Outcome one = cadre({"events", "--for", "deploy/web"});
  EXPECT_THAT(one.out, AllOf(HasSubstr("to three"), Not(HasSubstr("it ended"))));
  EXPECT_THAT(cadre({"events", "-A"}).out, testing::StartsWith("NAMESPACE "));
  EXPECT_EQ(cadre({"events", "-n", "kube-system"}).err,
            "no events found in namespace kube-system\n");
  EXPECT_EQ(cadre({"events", "--for", "deploy"}).code, 2);
}

// ---- logs

TEST_F(VerbsTest, ShowsLogs) {
  given(kWebPod);
  given(R"(
apiVersion: v1
kind: Pod
metadata: {name: other, labels: {app: web}}
spec: {containers: [{name: main, image: web}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}
)");
  printed({{"web main", "one\ntwo"}, {"web side", "aside\n"}, {"other main", "three\n"}});
  for (const Said& c : std::vector<Said>{
           {{"web"}, 0, "one\ntwo", "pod/web: container main of main, side; choose with -c\n"},
           {{"pod/web", "-c", "side"}, 0, "aside\n", ""},
           {{"-l", "app=web"}, 0, "[other] three\n[web] one\n[web] two\n", ""},
           {{"deploy/web"}, 0, "[other] three\n[web] one\n[web] two\n", ""},
           {{"web", "-c", "none"},
            2,
            "",
            "pod/web has no container none: choose one of main, side with -c"},
           {{"none"}, 1, "", "pod/none is not there"},
           {{"-l", "a=b"}, 1, "", "no pods found"},
           {{"cm/none"}, 1, "", "configmap/none is not there"},
           {{}, 2, "", "say whose"},
           {{"web", "-f", "--previous"}, 2, "", "what has ended cannot be followed"}}) {
    check("logs", c);
  }
  given(kColors);
  EXPECT_THAT(cadre({"logs", "cm/colors"}).err, HasSubstr("configmap/colors selects no pods"));
  printed({{"other main", "asked"}});
  EXPECT_THAT(cadre({"logs", "web"}).err, HasSubstr("waiting to start; follow it with -f"));
  EXPECT_EQ(
      cadre({"logs", "other", "--tail", "3", "--since", "90s", "--timestamps", "--previous"}).code,
      0);
  EXPECT_EQ(asked(), "previous=1 tailLines=3 sinceSeconds=90 timestamps=1 follow=0");
}

TEST_F(VerbsTest, FollowsPodsUntilAllHaveEnded) {
  auto pod = [](std::string name) {
    return format(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {}, labels: {{app: job}}}}, spec: "
        "{{containers: [{{name: main, image: x}}]}}}}",
        name);
  };
  auto state = [](std::string phase, std::string container) {
    return format(
        R"({{"phase":"{}","containerStatuses":[{{"name":"main","restartCount":0,"ready":false,
        "image":"x","imageID":"","state":{{{}}}}}]}})",
        phase, container);
  };
  printed({{"a main", "first\n"}, {"b main", "second\n"}});
  given(pod("a"));
  status("pods/a", state("Pending", R"("waiting":{"reason":"ContainerCreating"})"));
  std::promise<void> waiting;
  auto follows = std::async(std::launch::async, [&, told = false]() mutable {
    return cadre({"logs", "-l", "app=job", "-f"}, [&] {
      if (!std::exchange(told, true)) waiting.set_value();  // of the other pod, too
    });
  });
  waiting.get_future().wait();
  given(pod("b"));
  status("pods/a", state("Running", R"("running":{"startedAt":"2026-01-01T00:00:00Z"})"));
  status("pods/b", state("Running", R"("running":{"startedAt":"2026-01-01T00:00:00Z"})"));
  std::string ended = R"("terminated":{"exitCode":0})";
  status("pods/a", state("Succeeded", ended));
  status("pods/b", state("Failed", ended));
  Outcome ran = follows.get();
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("pod/a waits: ContainerCreating"));
  EXPECT_THAT(ran.out, AllOf(HasSubstr("[a] first\n"), HasSubstr("[b] second\n")));
}

// ---- describe

TEST_F(VerbsTest, DescribesAnyKind) {
  given(kWebPod);
  std::string yaml = cadre({"get", "pod", "web", "-o", "yaml"}).out;
  std::string uid = yaml.substr(yaml.find("uid: ") + 5, 36);
  given(format(R"(
apiVersion: v1
kind: ConfigMap
metadata:
  name: child
  ownerReferences: [{{apiVersion: v1, kind: Pod, name: web, uid: {}, controller: true}}]
data:
  text: |
    two
    lines
---
apiVersion: v1
kind: Event
metadata: {{name: a}}
involvedObject: {{kind: Pod, name: web, uid: {}}}
type: Warning
reason: BackOff
message: it ended
lastTimestamp: "2026-01-02T00:00:00Z"
)",
               uid, uid));
  status("pods/web", R"({"phase":"Pending","conditions":[{"type":"Ready","status":"False",
      "reason":"ContainersNotReady","message":"main is not ready","lastTransitionTime":"2026-01-01T00:00:00Z"}]})");
  Outcome pod = cadre({"describe", "pod", "web"});
  EXPECT_EQ(pod.code, 0) << pod.err;
  EXPECT_THAT(pod.out, testing::StartsWith("Name:         web\n"
                                           "Namespace:    default\n"
                                           "Kind:         Pod (v1)\n"
                                           "Created:      "));
  EXPECT_THAT(pod.out,
              AllOf(HasSubstr("Labels:       app=web\n"), HasSubstr("State:        not ready: "),
                    HasSubstr("\nSpec:\n  containers:\n    - image:                    web\n"),
                    HasSubstr("\nConditions:\n  TYPE    STATUS   SINCE"),
                    HasSubstr("ContainersNotReady   main is not ready\n"),
                    HasSubstr("\nChildren:\n  OBJECT            AGE"),
                    HasSubstr("  configmap/child   "), HasSubstr("\nEvents:\n  LAST SEEN"),
                    HasSubstr("Warning   BackOff   it ended\n"), Not(HasSubstr("managedFields"))));
  Outcome map = cadre({"describe", "cm/child"});
  EXPECT_THAT(map.out, AllOf(HasSubstr("Owner:        Pod/web (controller)\n"),
                             testing::EndsWith("\nData:\n  text: |\n    two\n    lines\n"),
                             Not(HasSubstr("Children"))));
  EXPECT_THAT(cadre({"describe", "cm", "child", "none"}).err,
              HasSubstr("configmap/none is not there"));
  EXPECT_EQ(cadre({"describe", "cm", "child", "none"}).code, 1);
  EXPECT_EQ(cadre({"describe", "jobs"}).code, 1);
  EXPECT_EQ(cadre({"describe"}).code, 2);
}

TEST_F(VerbsTest, DescribeShowsNoSecrets) {
  given(R"(
apiVersion: v1
kind: Secret
metadata:
  name: door
  annotations: {kubectl.kubernetes.io/last-applied-configuration: 'open sesame'}
stringData: {word: open sesame}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: web, env: [{name: DOOR_KEY, value: open sesame}, {name: COLOR, value: red}]}]}
)");
  Outcome secret = cadre({"describe", "secret", "door"});
  EXPECT_THAT(secret.out, AllOf(HasSubstr("word: 11 bytes\n"), Not(HasSubstr("sesame")),
                                Not(HasSubstr(base64Encode("open sesame")))));
  EXPECT_THAT(
      cadre({"describe", "pod", "web"}).out,
      AllOf(HasSubstr("value: (not shown)"), HasSubstr("value: red"), Not(HasSubstr("sesame"))));
}

// ---- completions

TEST_F(VerbsTest, CompletesCommandsFlagsKindsAndNames) {
  given(kColors);
  struct Case {
    std::vector<std::string> words;
    std::string has, has_not = "nothing at all";
  };
  std::string config = "--kubeconfig=" + kubeconfig();
  for (const Case& c :
       std::vector<Case>{{{}, "describe\t"},
                         {{"des"}, "describe\tTell all about objects", "get\t"},
                         {{""}, "get\t", "shim\t"},
                         {{"manifests", ""}, "crds\tCustomResourceDefinitions\n"},
                         {{"get", "--sel"}, "--selector\tOnly those with these labels"},
                         {{"get", "-"}, "-n\t"},
                         {{"get", "pods", "-o", "y"}, "yaml\n", "json"},
                         {{"completions", ""}, "zsh\n"},
                         {{"apply", "-f", ""}, ":files\n"},
                         {{"get", config, "config"}, "configmaps\tConfigMap\n", "pods"},
                         {{"get", config, "cm", "col"}, "colors\tConfigMap\n"},
                         {{"get", config, "cm/"}, "cm/colors\tConfigMap\n"},
                         {{"delete", "--kubeconfig", kubeconfig(), "cm", ""}, "colors\t"},
                         {{"get", config, "pods", "-n", "kube-s"}, "kube-system\tNamespace\n"},
                         {{"logs", config, "dep"}, "deployments\tDeployment\n"}}) {
    SCOPED_TRACE(join(c.words, " "));
    std::vector<std::string> words{"complete"};
    words.insert(words.end(), c.words.begin(), c.words.end());
    Outcome ran = plain(words);
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, AllOf(HasSubstr(c.has), Not(HasSubstr(c.has_not))));
    EXPECT_EQ(ran.err, "");
  }
  EXPECT_EQ(plain({"complete", "get", "po"}).out, "") << "no cluster, nothing to offer";
  for (std::string shell : {"bash", "zsh", "fish"})
    EXPECT_THAT(plain({"completions", shell}).out, HasSubstr("cadre complete "));
}

TEST_F(VerbsTest, TheReadmeNamesEveryCommand) {
  std::ifstream file(CADRE_ROOT "/README.md");
  std::string readme(std::istreambuf_iterator<char>(file), {});
  std::string commands = plain({"complete", ""}).out;
  for (std::string_view line : split(trim(commands), '\n')) {
    std::string name(cut(line, "\t").first);
    EXPECT_THAT(readme, testing::AnyOf(HasSubstr("cadre " + name), HasSubstr("\\|" + name)));
  }
}

}  // namespace
}  // namespace cadre::cli

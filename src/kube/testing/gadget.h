#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kube/describe.h"
#include "kube/validate.h"

namespace cadre::kube {

// For tests: a kind that has everything a description can say. test/schemas/gadget.yaml tells what
// is right and wrong in it, and holds for this description and for a real API server.

struct GadgetPort {
  std::string name;
  std::string protocol = "TCP";
  int port = 0;
  std::optional<std::string> host;

  static void describe(Fields<GadgetPort>& f) {
    f("name", &GadgetPort::name, "What it is called.").required().dnsLabel();
    f("protocol", &GadgetPort::protocol, "What it speaks.").defaults().oneOf({"TCP", "UDP"});
    f("port", &GadgetPort::port, "Its number.").required().min(1).max(65535);
    f("host", &GadgetPort::host, "Its address, for good.").maxLength(64).immutable();
  }
};

struct GadgetLimit {
  std::optional<int> from, to, below;

  static void describe(Fields<GadgetLimit>& f) {
    f("from", &GadgetLimit::from, "The least.");
    f("to", &GadgetLimit::to, "The most.").defaults(10);
    f("below", &GadgetLimit::below, "From there on none.");
    f.rule(atMostOneOf({"from", "below"}));
    f.rule({.cel = "!has(self.from) || self.from <= self.to",
            .message = "from must not be above to",
            .field_path = ".from",
            .holds = [](const json::Value& self) {
              return self["from"].isNull() || self["from"].number() <= self["to"].number();
            }});
  }
};

struct GadgetSource {
  std::optional<std::string> value, ref, package;

  static void describe(Fields<GadgetSource>& f) {
    f("value", &GadgetSource::value, "The text itself.").secret().maxLength(100);
    f("ref", &GadgetSource::ref, "Where it is found.").dnsLabel();
    f("package", &GadgetSource::package, "What brings it: a word of CEL too.").dnsLabel();
    f.rule(exactlyOneOf({"value", "ref", "package"}, Fault::Forbidden));
  }
};

struct GadgetNetwork {
  std::vector<std::string> access;
  bool expose = true;

  static void describe(Fields<GadgetNetwork>& f) {
    f("access", &GadgetNetwork::access, "Who may call it.").set().maxItems(4).each().dnsLabel();
    f("expose", &GadgetNetwork::expose, "Whether others reach it.").defaults();
    f.preserveUnknown();
  }
};

// Texts for the patterns that kinds have; the server has to find the same ones wrong.
struct GadgetTexts {
  std::vector<std::string> label, subdomain, word, duration, model, url, package, mixed;

  static void describe(Fields<GadgetTexts>& f) {
    auto add = [&](std::string_view name, auto member, std::string_view pattern) {
      f(name, member, "Texts for one pattern.").each().pattern(pattern);
    };
    add("label", &GadgetTexts::label, kDnsLabel);
    add("subdomain", &GadgetTexts::subdomain, kDnsSubdomain);
    add("word", &GadgetTexts::word, "^[A-Za-z0-9_.-]+$");
    add("duration", &GadgetTexts::duration, "^([0-9]+(h|m|s|ms)){1,4}$");
    add("model", &GadgetTexts::model, "^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,255}$");
    add("url", &GadgetTexts::url, kHttpUrl);
    add("package", &GadgetTexts::package,
        R"(^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[a-z0-9,-]+\])?)"
        R"(((==|>=|<=|!=|~=|<|>)[0-9A-Za-z.*+!-]+(,(==|>=|<=|!=|~=|<|>)[0-9A-Za-z.*+!-]+)*)?$)");
    add("mixed", &GadgetTexts::mixed, R"(a.?[^b-d\s]{2,3}(\d|\W$)|^é*$|\.\.)");
  }
};

struct GadgetConfig {
  std::string model;
  json::Value text;

  static void describe(Fields<GadgetConfig>& f) {
    f("model", &GadgetConfig::model, "By name.").maxLength(20);
    f("text", &GadgetConfig::text, "In any form.").untyped();
    f.anyOf({"model", "text"});
  }
};

struct GadgetSpec {
  std::string mode;
  std::optional<std::string> hosted;
  std::string title;
  int size = 3;
  std::optional<std::int64_t> big;
  std::optional<double> ratio;
  bool on = true;
  std::optional<int> replicas;
  std::vector<std::string> tags;
  std::vector<GadgetPort> ports;
  std::vector<std::vector<int>> matrix;
  std::map<std::string, std::string> words;
  std::map<std::string, json::Value> amounts;
  std::map<std::string, GadgetLimit> limits;
  json::Value free, any, percent;
  std::string password;
  std::vector<std::string> keys;
  std::optional<std::string> maybe;
  Time since;
  std::string bytes;
  GadgetNetwork network;
  GadgetLimit filled;
  std::string fixed;
  std::optional<GadgetSource> source;
  std::optional<GadgetConfig> config;
  std::string old_title;
  GadgetTexts texts;

  static void describe(Fields<GadgetSpec>& f) {
    using S = GadgetSpec;
    f("mode", &S::mode, "How it works.").required().oneOf({"Proxy", "Hosted"});
    f("hosted", &S::hosted, "What it works with when it is Hosted.").maxLength(20);
    f("title", &S::title, "What people read.").minLength(2).maxLength(5).pattern("^[^!]*$");
    f("size", &S::size, "How large it is.").defaults().min(1).max(100);
    f("big", &S::big, "A large number.").max(1e15);
    f("ratio", &S::ratio, "A share.").min(0).max(0.5);
    f("on", &S::on, "Whether it is on.").defaults();
    f("replicas", &S::replicas, "How many.").min(0);
    f("tags", &S::tags, "Words about it.").set().minItems(1).maxItems(4).each().maxLength(10);
    f("ports", &S::ports, "Where it listens.").keyedBy({"name", "protocol"}).maxItems(8);
    f("matrix", &S::matrix, "Numbers in rows.").each().maxItems(2).each().max(9);
    f("words", &S::words, "Words by name.").minItems(1).maxItems(3).each().maxLength(5);
    f("amounts", &S::amounts, "Quantities by name.").each().quantity();
    f("limits", &S::limits, "Limits by name.").maxItems(8);
    f("free", &S::free, "An object of any shape.");
    f("any", &S::any, "A text, or an object with a text.").untyped().check(checkAny);
    f("percent", &S::percent, "A number or a share.").intOrString().pattern("^[0-9]+%$");
    f("password", &S::password, "Never shown.").secret().pattern("^[a-z]*$").maxLength(8);
    f("keys", &S::keys, "Never shown either.").secret().set().each().oneOf({"one", "two", "six"});
    f("maybe", &S::maybe, "A text or null.").nullable().defaults("yes").maxLength(5);
    f("since", &S::since, "When it began.");
    f("bytes", &S::bytes, "In base64.").format("byte");
    f("network", &S::network, "Who talks to whom.");
    f("filled", &S::filled, "There by default.").defaults(json::Object{});
    f("fixed", &S::fixed, "Never changed.").maxLength(20).immutable();
    f("source", &S::source, "Where something comes from.");
    f("config", &S::config, "How it is set up.");
    f("oldTitle", &S::old_title, "What people read.").deprecated("use title");
    f("texts", &S::texts, "Texts for patterns.");
    f.rule({.cel = "self.mode != 'Hosted' || has(self.hosted)",
            .message = "hosted is needed when mode is Hosted",
            .field_path = ".hosted",
            .reason = Fault::Required,
            .holds = [](const json::Value& self) {
              return self["mode"].string() != "Hosted" || self["hosted"].isString();
            }});
    f.rule({.cel = "self.size >= oldSelf.size",
            .message = "it never becomes smaller",
            .holds = [](const json::Value& self, const json::Value& old) {
              return self["size"].number() >= old["size"].number();
            }});
  }

  static void checkAny(const json::Value& self, Report& report) {
    if (self.isString()) return;
    if (!self.isObject()) return report.invalid("", "must be a text or an object");
    if (!self["text"].isString()) report.required("text", "it is what any is about");
    if (self.object().size() > 1) report.warn("", "all but text is passed over");
  }
};

struct GadgetStatus : CommonStatus {
  std::string phase;
  bool ready = false;
  int replicas = 0;
  std::string selector;

  static void describe(Fields<GadgetStatus>& f) {
    f("phase", &GadgetStatus::phase, "Where it is.").oneOf({"Pending", "Ready"});
    f("ready", &GadgetStatus::ready, "Whether it can be used.");
    f("replicas", &GadgetStatus::replicas, "How many there are.");
    f("selector", &GadgetStatus::selector, "Which pods it has.");
  }
};

struct Gadget {
  static const Kind& kind() {
    static const Kind kind = make("test.cadre.dev");
    return kind;
  }
  static Kind make(std::string group) {
    return {.group = std::move(group),
            .version = "v1alpha1",
            .kind = "Gadget",
            .plural = "gadgets",
            .singular = "gadget",
            .short_names = {"gg"},
            .categories = {"testing"},
            .names = Kind::Names::DnsLabel,
            .doc = "A thing that has everything.",
            .columns = {{"Mode", "string", ".spec.mode"},
                        {"Ready", "boolean", ".status.ready"},
                        {"Phase", "string", ".status.phase", true}},
            .spec = specOf<GadgetSpec>(),
            .status = statusOf<GadgetStatus>(),
            .scale = Scale{".spec.replicas", ".status.replicas", ".status.selector"},
            .rules = {{.cel = "self.metadata.name.size() <= 20",
                       .message = "the name must not be longer than 20",
                       .holds = hasShortName},
                      {.cel = "!has(self.spec.tags) || !(self.metadata.name in self.spec.tags)",
                       .message = "must not hold its own name",
                       .field_path = ".spec.tags",
                       .holds = isNotItsTag}},
            .checks = {checkTitle}};
  }

  static bool hasShortName(const json::Value& self) {
    return self["metadata"]["name"].string().size() <= 20;
  }
  static bool isNotItsTag(const json::Value& self) {
    for (const json::Value& tag : self["spec"]["tags"].array())
      if (tag == self["metadata"]["name"]) return false;
    return true;
  }
  static void checkTitle(const json::Value& self, Report& report) {
    if (self["spec"]["title"].string() == self["metadata"]["name"].string())
      report.warn("spec.title", "says no more than the name");
  }
};

}  // namespace cadre::kube

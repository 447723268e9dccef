#include "transcript/case.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/format.h"
#include "base/strings.h"

namespace cadre::transcript {

namespace {

// Reads one document into a Case. The first error stays.
class Reader {
 public:
  explicit Reader(Case& out) : out_(out) {}

  Result<> read() {
    const json::Value& root = out_.document.value;
    CADRE_TRY(allow(root, "", {"title", "webhooks", "steps", "cleanup"}));
    out_.title = trim(root["title"].string());
    if (out_.title.empty())
      return wrong("", "a case has a title: which rule it shows, and for what");
    out_.webhooks = root["webhooks"].object();
    if (root["steps"].array().empty()) return wrong("", "a case has steps");
    CADRE_TRY(readSteps(root["steps"], "/steps", out_.steps));
    return readSteps(root["cleanup"], "/cleanup", out_.cleanup);
  }

 private:
  Error wrong(std::string_view pointer, std::string_view what) const {
    return {.code = Code::InvalidArgument,
            .message = format("{}:{}: {}", out_.source, out_.lineOf(pointer), what)};
  }

  Result<> allow(const json::Value& value, std::string_view pointer,
                 std::initializer_list<std::string_view> keys) const {
    if (!value.isObject())
      return wrong(pointer, format("expected a mapping, found {}", value.typeName()));
    for (const auto& [key, member] : value.object())
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        return wrong(format("{}/{}", pointer, key), format("\"{}\" means nothing here", key));
    return {};
  }

  Result<> readSteps(const json::Value& list, const std::string& pointer, std::vector<Step>& out) {
    for (std::size_t i = 0; i < list.array().size(); ++i) {
      Step step;
      step.pointer = format("{}/{}", pointer, i);
      step.number = i + 1;
      CADRE_TRY(readStep(list.at(i), step));
      out.push_back(std::move(step));
    }
    return {};
  }

  Result<> readStep(const json::Value& value, Step& step) {
    if (value.object().contains("events")) {
      step.kind = Step::Kind::Events;
      CADRE_TRY(allow(value, step.pointer, {"events", "expect", "ends"}));
      step.watch = value["events"].string();
      step.ends = value["ends"].boolean();
      step.events = value["expect"].array();
      if (step.events.empty() && !step.ends)
        return wrong(step.pointer, "events of a watch are expected: list them");
      return {};
    }
    if (value.object().contains("asked")) {
      step.kind = Step::Kind::Asked;
      CADRE_TRY(allow(value, step.pointer, {"asked", "expect"}));
      step.webhook = value["asked"].string();
      if (!out_.webhooks.contains(step.webhook))
        return wrong(step.pointer, "the webhook that was asked is one of the case's webhooks");
      step.expected_body = value["expect"];
      return {};
    }
    if (value.object().contains("watch")) {
      step.kind = Step::Kind::Watch;
      CADRE_TRY(allow(value, step.pointer, {"watch", "name", "headers", "anonymous", "expect"}));
      step.watch = value["name"].string();
      if (step.watch.empty()) return wrong(step.pointer, "a watch has a name, for its events");
      CADRE_TRY(readRequest(value, value["watch"].string(), step));
      if (step.expected_body)
        return wrong(step.pointer, "the body of a watch is looked at by events");
      return {};
    }
    CADRE_TRY(
        allow(value, step.pointer, {"do", "headers", "body", "anonymous", "retry", "expect"}));
    return readRequest(value, value["do"].string(), step);
  }

  Result<> readRequest(const json::Value& value, std::string_view line, Step& step) {
    auto [method, target] = cut(line, " ");
    if (!target.starts_with('/'))
      return wrong(step.pointer,
                   "a step says what to do: a method and a path, or events of a watch");
    step.method = method;
    step.target = target;
    for (const auto& [name, text] : value["headers"].object())
      step.headers.emplace_back(name, text.string());
    if (const json::Value* body = value.object().find("body")) step.body = *body;
    step.anonymous = value["anonymous"].boolean();
    if (const json::Value* retry = value.object().find("retry")) {
      step.retry = parseDuration(retry->string());
      if (!step.retry) return wrong(step.pointer + "/retry", "retry is a duration such as 20s");
    }
    return readExpectation(value["expect"], step.pointer + "/expect", step);
  }

  Result<> readExpectation(const json::Value& expect, const std::string& pointer, Step& step) {
    if (expect.isNull()) return {};
    CADRE_TRY(allow(expect, pointer, {"status", "headers", "body"}));
    if (!expect["status"].isInteger()) return wrong(pointer, "an expectation has a status");
    step.status = static_cast<int>(expect["status"].integer());
    if (const json::Value* headers = expect.object().find("headers"))
      step.expected_headers = *headers;
    if (const json::Value* body = expect.object().find("body")) step.expected_body = *body;
    return {};
  }

  Case& out_;
};

}  // namespace

std::string Step::label() const {
  if (kind == Kind::Events) return format("step {}: events of {}", number, watch);
  if (kind == Kind::Asked) return format("step {}: what {} was asked", number, webhook);
  return format("step {}: {} {}", number, method, target);
}

Result<Case> parseCase(std::string_view text, std::string source) {
  CADRE_LET(auto documents, json::parseYaml(text, source));
  if (documents.size() != 1)
    return Error{
        .code = Code::InvalidArgument,
        .message = format("{}: expected one document, found {}", source, documents.size())};
  Case out;
  out.source = std::move(source);
  out.document = std::move(documents.front());
  CADRE_TRY(Reader(out).read());
  return out;
}

Result<Case> loadCase(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return Error{.code = Code::NotFound, .message = path + ": cannot be read"};
  return parseCase(text.str(), path);
}

}  // namespace cadre::transcript

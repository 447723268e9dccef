#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/yaml.h"

namespace cadre::transcript {

// One step of a case, as written: {names} are still to be filled in.
struct Step {
  enum class Kind {
    Request,  // send, and look at the answer
    Watch,    // send, look at the head of the answer, and keep listening
    Events,   // look at what an open watch has heard, or wait for it
    Asked,    // look at the newest question to a webhook since the last such look
  };

  Kind kind = Kind::Request;
  std::string pointer;     // to the step in its document
  std::size_t number = 0;  // the first is 1
  std::string method, target;
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<json::Value> body;
  bool anonymous = false;         // without our credentials
  std::optional<Duration> retry;  // again until the expectation holds, for so long
  std::string watch;              // the name of the watch that is opened or listened to
  std::string webhook;            // the name of the webhook that was asked
  std::optional<int> status;      // nothing: any that means success
  std::optional<json::Value> expected_headers, expected_body;
  std::vector<json::Value> events;
  bool ends = false;  // after these events the stream ends, and cleanly

  // "step 1: POST /api/v1/...", "step 2: events of pods": for messages.
  std::string label() const;
};

// A transcript: requests and the answers that a Kubernetes API server gives. An immutable value.
struct Case {
  std::string source;  // the file, as it was named
  std::string title;
  std::vector<Step> steps;
  json::Object webhooks;      // what each answers, by name; null: nothing ever
  std::vector<Step> cleanup;  // sent at the end, whatever happened; answers do not matter
  json::Document document;

  int lineOf(std::string_view pointer) const { return document.lineOf(pointer); }
};

// InvalidArgument with file and line for what is no case, also for keys that mean nothing: a
// misspelt expectation must not pass.
Result<Case> parseCase(std::string_view text, std::string source);
Result<Case> loadCase(const std::string& path);

}  // namespace cadre::transcript

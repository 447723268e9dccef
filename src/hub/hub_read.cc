#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/strings.h"
#include "hub/call.h"
#include "json/parse.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

constexpr Duration kTooFresh = 3s;
constexpr Duration kWatchTimeout = 30min;

// Where a list goes on: after a key, as of a revision.
struct Continue {
  std::int64_t revision = 0;  // 0: as it is by then
  kube::ObjectKey after;

  std::string text() const {
    return base64Encode(json::write(json::Object{
        {"v", "meta.k8s.io/v1"}, {"rv", revision}, {"ns", after.ns}, {"start", after.name}}));
  }
  static std::optional<Continue> parse(std::string_view token) {
    auto bytes = base64Decode(token);
    auto value = json::parse(bytes.value_or(""));
    if (!bytes || !value || (*value)["v"].string() != "meta.k8s.io/v1") return std::nullopt;
    return Continue{(*value)["rv"].integer(),
                    {(*value)["ns"].string(), (*value)["start"].string()}};
  }
};

Failure noVersion(std::string_view text) {
  return {500, "",
          format("resourceVersion: Invalid value: \"{}\": strconv.ParseUint: parsing \"{}\": "
                 "invalid syntax",
                 text, text)};
}

// How resourceVersion, its match and sendInitialEvents go together.
std::vector<kube::FieldError> listErrors(const Asked& asked) {
  std::vector<kube::FieldError> errors;
  std::string_view match = asked.option("resourceVersionMatch"),
                   version = asked.option("resourceVersion");
  auto forbid = [&](std::string_view field, std::string_view why) {
    errors.push_back(wrong(field, kube::Fault::Forbidden, format("Forbidden: {}", why)));
  };
  if (!match.empty() && version.empty())
    forbid("resourceVersionMatch",
           "resourceVersionMatch is forbidden unless resourceVersion is provided");
  if (!match.empty() && !asked.option("continue").empty())
    forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
  if (!match.empty() && match != "Exact" && match != "NotOlderThan")
    errors.push_back(wrong("resourceVersionMatch", kube::Fault::NotSupported,
                           format("Unsupported value: \"{}\": supported values: \"Exact\", "
                                  "\"NotOlderThan\", \"\"",
                                  match)));
  if (match == "Exact" && version == "0")
    forbid("resourceVersionMatch",
           "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
  if (asked.has("sendInitialEvents"))
    forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
  return errors;
}

std::vector<kube::FieldError> watchErrors(const Asked& asked) {
  std::vector<kube::FieldError> errors;
  std::string_view match = asked.option("resourceVersionMatch");
  bool initial = asked.has("sendInitialEvents");
  if (initial && match != "NotOlderThan")
    errors.push_back(wrong("resourceVersionMatch", kube::Fault::Forbidden,
                           "Forbidden: sendInitialEvents requires setting resourceVersionMatch to "
                           "NotOlderThan"));
  if (!initial && !match.empty())
    errors.push_back(wrong("resourceVersionMatch", kube::Fault::Forbidden,
                           "Forbidden: resourceVersionMatch is forbidden for watch unless "
                           "sendInitialEvents is provided"));
  if (!match.empty() && match != "NotOlderThan")
    errors.push_back(wrong("resourceVersionMatch", kube::Fault::NotSupported,
                           format("Unsupported value: \"{}\": supported values: "
                                  "\"NotOlderThan\"",
                                  match)));
  // A watch from nothing in particular begins with a list.
  std::string_view version = asked.option("resourceVersion");
  bool lists = !match.empty() || (!initial && (version.empty() || version == "0"));
  if (lists && !asked.option("continue").empty())
    errors.push_back(
        wrong("resourceVersionMatch", kube::Fault::Forbidden,
              "Forbidden: resourceVersionMatch is forbidden when continue is provided"));
  return errors;
}

}  // namespace

// Whoever knows of a version that is not there yet may know of it from another server.
bool Hub::waitsFor(const CallRef& call, std::int64_t wanted, void (Hub::*then)(const CallRef&)) {
  if (wanted <= objects_.revision()) return false;
  call->waiting = scheduler_.after(kTooFresh, [this, weak = std::weak_ptr(call), wanted, then] {
    auto call = resumed(weak);
    if (!call) return;
    if (wanted <= objects_.revision()) return (this->*then)(call);
    Failure failure{
        504, "Timeout",
        format("Too large resource version: {}, current: {}", wanted, objects_.revision())};
    failure.details = {
        {"retryAfterSeconds", 1},
        {"causes", json::Array{json::Object{{"reason", "ResourceVersionTooLarge"},
                                            {"message", "Too large resource version"}}}}};
    if (call->asked.verb == Verb::Watch) return Watches::refuse(*call->request, failure);
    call->request->respond(504, {{"content-type", std::string(kJson)}, {"retry-after", "1"}},
                           json::write(failure.status()));
  });
  wait(call);
  return true;
}

void Hub::get(const CallRef& call) {
  std::string_view version = call->option("resourceVersion");
  std::optional<std::int64_t> wanted = version.empty() ? 0 : parseInt(version);
  if (!wanted || *wanted < 0) return refuse(call, noVersion(version));
  if (waitsFor(call, *wanted, &Hub::get)) return;
  State state = objects_.find(call->kind->storage, call->key());
  if (!state) return refuse(call, notFound(call->kind->resource, call->asked.name));
  show(call, 200, *state);
}

void Hub::show(const CallRef& call, int code, const Stored& state) {
  const Kind& kind = *call->kind;
  if (call->asked.subresource == "scale")
    return answer(call, code, registry_.scaleOf(kind, valueOf(kind, state)));
  if (call->form.yaml) return answer(call, code, valueOf(kind, state));
  answer(call, code, std::string(kJson),
         renderAs(kind, state, call->form, call->include(), true, scheduler_.clock().now()));
}

// What is not stored, or no more.
void Hub::show(const CallRef& call, int code, json::Value object) {
  const Kind& kind = *call->kind;
  if (call->asked.subresource == "scale")
    return answer(call, code, registry_.scaleOf(kind, object));
  answer(call, code,
         shownAs(kind, std::move(object), call->form, call->include(), true,
                 scheduler_.clock().now()));
}

std::optional<Failure> Hub::parseSelection(Call& call, Selection& selection) const {
  for (std::string_view name : {"limit", "timeoutSeconds"})
    if (auto text = call.option(name); !text.empty() && !parseInt(text)) return noNumber(text);
  std::vector<kube::FieldError> errors =
      call.asked.verb == Verb::Watch ? watchErrors(call.asked) : listErrors(call.asked);
  if (!errors.empty()) return wrongOptions("ListOptions", errors);
  selection.ns = call.asked.ns;
  auto labels = kube::LabelSelector::parse(call.option("labelSelector"));
  if (!labels) return badRequest("unable to parse requirement: " + labels.error().text());
  selection.labels = *std::move(labels);
  auto parsed = kube::FieldSelector::parse(call.option("fieldSelector"));
  if (!parsed) return badRequest(parsed.error().text());
  std::vector<kube::FieldSelector::Term> terms = parsed->terms();
  std::vector<Kind::Selectable> own = call.kind->selectable();
  for (auto& term : terms) {
    if (term.path == "metadata.name" || term.path == "metadata.namespace") continue;
    auto field = std::ranges::find(own, term.path, &Kind::Selectable::path);
    if (field == own.end())
      return badRequest(own.empty() && call.kind->type()
                            ? format("\"{}\" is not a known field selector: only "
                                     "\"metadata.name\", \"metadata.namespace\"",
                                     term.path)
                            : "field label not supported: " + term.path);
    if (!field->place.empty()) term.path = field->place;
    if (!field->empty.empty() && term.value == field->empty) term.value.clear();
  }
  selection.fields = kube::FieldSelector(std::move(terms));
  return std::nullopt;
}

void Hub::list(const CallRef& call) {
  std::string_view version = call->option("resourceVersion");
  std::optional<std::int64_t> wanted = version.empty() ? 0 : parseInt(version);
  if (wanted && waitsFor(call, *wanted, &Hub::list)) return;
  auto page = pageOf(*call);
  if (!page) return refuse(call, page.failure());
  answer(call, *page);
}

void Hub::answer(const CallRef& call, const Page& page) {
  std::string text = renderList(*call->kind, page.items, call->form, call->include(), page.meta,
                                scheduler_.clock().now());
  if (!call->form.yaml) return answer(call, 200, std::string(kJson), std::move(text));
  answer(call, 200, *json::parse(text));
}

Outcome<Hub::Page> Hub::pageOf(Call& call) const {
  Selection selection;
  if (auto failure = parseSelection(call, selection)) return *std::move(failure);
  std::string_view version = call.option("resourceVersion"),
                   match = call.option("resourceVersionMatch"), token = call.option("continue");
  std::optional<std::int64_t> wanted = version.empty() ? 0 : parseInt(version);
  if (!wanted || *wanted < 0)
    return badRequest(format("invalid resource version: \"{}\"", version));
  if (!token.empty() && *wanted > 0)
    return badRequest("specifying resource version is not allowed when using continue");
  std::int64_t revision = objects_.revision();
  kube::ObjectKey after;
  Objects::Collection then;
  const Objects::Collection* collection = &objects_.all(call.kind->storage);
  if (!token.empty()) {
    auto parsed = Continue::parse(token);
    if (!parsed) return badRequest("continue key is not valid: it was not made by this server");
    if (parsed->revision > 0) revision = parsed->revision;
    after = parsed->after;
    if (!selection.ns.empty()) after.ns = selection.ns;
  } else if (match == "Exact") {
    revision = *wanted;
  }
  if (revision != objects_.revision()) {
    auto past = objects_.at(call.kind->storage, revision);
    if (!past && token.empty()) return failureOf(past.error());
    if (!past) {
      Failure failure = expired(
          "The provided continue parameter is too old to display a consistent list result. You "
          "can start a new list without it, or go on with the one in this answer: what was made, "
          "changed or deleted meanwhile may then be in the list or be missing.");
      failure.next = Continue{0, after}.text();
      return failure;
    }
    then = *std::move(past);
    collection = &then;
  }
  auto limit = parseInt(call.option("limit")).value_or(0);
  if (version == "0" && match.empty()) limit = 0;  // whatever is at hand, at once

  Page page{.meta = {.revision = revision}};
  auto next =
      token.empty() ? collection->lower_bound({selection.ns, ""}) : collection->upper_bound(after);
  bool selects = !selection.labels.matchesEverything() || !selection.fields.matchesEverything();
  for (; next != collection->end(); ++next) {
    if (!selection.ns.empty() && next->first.ns != selection.ns) break;
    if (!selection.matches(*next->second)) continue;
    if (limit > 0 && std::cmp_equal(page.items.size(), limit)) {
      page.meta.next = Continue{revision, page.items.back()->key}.text();
      if (!selects)
        for (;
             next != collection->end() && (selection.ns.empty() || next->first.ns == selection.ns);
             ++next)
          ++page.meta.remaining;
      break;
    }
    page.items.push_back(next->second);
  }
  return page;
}

void Hub::watch(const CallRef& call) {
  Watches::Wanted wanted{.kind = call->kind, .form = call->form, .include = call->include()};
  if (auto failure = parseSelection(*call, wanted.selection)) return refuse(call, *failure);
  std::string_view version = call->option("resourceVersion");
  bool send_initial = call->asked.flag("sendInitialEvents");
  std::optional<std::int64_t> from = version.empty() ? 0 : parseInt(version);
  if (!from || *from < 0) return refuse(call, noVersion(version));
  // Nobody keeps the others out, least of all who could put an end to it.
  const std::vector<std::string>& groups = call->user.groups;
  if (std::ranges::find(groups, "system:masters") == groups.end()) {
    wanted.user = call->user.name;
    if (watches_.count() >= options_.watches.count ||
        watches_.count(wanted.user) >= options_.watches.of_one_user)
      return refuse(call, {429, "TooManyRequests", "too many watches are open: close some"});
  }
  wanted.bookmarks = call->asked.flag("allowWatchBookmarks");
  auto seconds = parseInt(call->option("timeoutSeconds")).value_or(0);
  wanted.timeout =
      seconds != 0 ? Duration(std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, 86'400)))
                   : random_.jitter(kWatchTimeout, 1);
  if (send_initial && waitsFor(call, *from, &Hub::watch)) return;
  // Only somebody who saw what is lost here knows of such a version: who went on from it would
  // miss all that is written until it is reached.
  if (*from > objects_.revision() && !send_initial)
    return Watches::refuse(
        *call->request,
        expired(format("the resource version {} is ahead of this server's, which is {}: list again",
                       *from, objects_.revision())));
  if (*from > 0 && !send_initial) {
    auto changes = objects_.since(call->kind->storage, *from);
    objects_.whenKept([this, call, wanted = std::move(wanted), changes = std::move(changes),
                       revision = objects_.revision()](Result<> kept) mutable {
      if (!kept) return Watches::refuse(*call->request, internal(kept.error().text()));
      if (!changes) return Watches::refuse(*call->request, failureOf(changes.error()));
      watches_.resume(call->request, std::move(wanted), *changes, revision);
    });
    return;
  }
  std::vector<State> initial;
  bool only_changes = call->asked.has("sendInitialEvents") && !send_initial;
  for (const auto& [key, state] : objects_.all(call->kind->storage))
    if (!only_changes && wanted.selection.matches(*state)) initial.push_back(state);
  bool bookmark = wanted.bookmarks && !only_changes;
  objects_.whenKept([this, call, wanted = std::move(wanted), initial = std::move(initial), bookmark,
                     revision = objects_.revision()](Result<> kept) mutable {
    if (!kept) return Watches::refuse(*call->request, internal(kept.error().text()));
    watches_.open(call->request, std::move(wanted), initial, revision, bookmark);
  });
}

}  // namespace cadre::hub

// [live, config, schema] as JSON, of every built-in kind, of a custom resource and of neither:
// FieldsV1 is read, written and read the same again, and what comes of an update or an apply is
// JSON whose managedFields can be read, or a failure with a sentence.

#include <cstdint>
#include <string_view>

#include "json/parse.h"
#include "json/write.h"
#include "kube/apply.h"
#include "kube/typed.h"
#include "require.h"

using namespace cadre;

namespace {

void checkFields(const json::Value& value) {
  auto set = kube::FieldSet::parse(value);
  require(set.ok() || !set.error().message.empty());
  if (!set.ok()) return;
  auto again = kube::FieldSet::parse(set->fieldsV1());
  require(again.ok() && *again == *set);
  require((*set - *set).empty() && (*set & *set) == *set && (*set | *set) == *set);
  set->each([](const kube::FieldPath& path) { require(!kube::pathText(path).empty()); });
}

void checkObject(const json::Value& object) {
  require(json::parse(json::write(object)).ok());
  for (const json::Value& entry : object["metadata"]["managedFields"].array())
    require(kube::FieldSet::parse(entry["fieldsV1"]).ok());
}

void checkApply(const kube::Shape& shape, const json::Value& live, const json::Value& config) {
  kube::Writer writer{.manager = "fuzz", .api_version = "v1"};
  checkObject(kube::update(shape, live, config, writer));
  auto applied = kube::apply(shape, live, config, writer, kube::Force::Yes);
  require(applied.ok() || !applied.error().message.empty());
  if (!applied.ok()) return;
  checkObject(*applied);
  auto again = kube::apply(shape, *applied, config, writer, kube::Force::Yes);
  if (again.ok()) checkObject(*again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const auto kinds = kube::builtInKinds();
  const auto& kind = kinds[data[0] % kinds.size()];
  auto parsed = json::parse(text, json::Limits{.bytes = 1u << 16, .depth = 40, .values = 10000});
  if (!parsed.ok()) return 0;
  const json::Value &live = parsed->at(0), &config = parsed->at(1);
  checkFields(live);
  for (const json::Value& entry : live["metadata"]["managedFields"].array())
    checkFields(entry["fieldsV1"]);
  checkApply(kind.type, live, config);
  checkApply(kube::Shape(), live, config);
  checkApply(kube::Shape::ofResource(parsed->at(2)), live, config);
  return 0;
}

// [current, patch] as JSON, of every built-in kind: an object covers itself, and what a strategic
// merge patch gives is JSON, or a failure with a sentence.

#include <cstdint>
#include <string_view>

#include "json/parse.h"
#include "json/write.h"
#include "kube/covers.h"
#include "kube/strategic_merge.h"
#include "require.h"

using namespace cadre;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const auto kinds = kube::builtInKinds();
  const auto& kind = kinds[data[0] % kinds.size()];
  auto parsed = json::parse(text, json::Limits{.bytes = 1u << 16, .depth = 40, .values = 10000});
  if (!parsed.ok()) return 0;
  const json::Value& current = parsed->at(0);
  const json::Value& patch = parsed->at(1);

  for (kube::Type type : {kind.type, kube::Type()}) {
    bool write_only = !current["stringData"].isNull();  // a server shows it as data
    require(write_only || !kube::covers(type, current, current));
    auto difference = kube::covers(type, current, patch);
    require(!difference || difference->from || difference->to);
    auto merged = kube::strategicMerge(type, current, patch);
    require(merged.ok() || !merged.error().message.empty());
    if (merged.ok()) require(json::parse(json::write(*merged)).ok());
  }
  return 0;
}

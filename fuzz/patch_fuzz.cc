// [current, patch] as JSON, of every built-in kind: a JSON patch, a merge patch and a strategic one
// each give JSON, or a failure with a sentence; merging the same a second time changes nothing.

#include <cstdint>
#include <string_view>

#include "json/parse.h"
#include "json/patch.h"
#include "json/write.h"
#include "kube/strategic_merge.h"
#include "kube/typed.h"
#include "require.h"

using namespace cadre;

namespace {

void check(const Result<json::Value>& patched) {
  if (!patched.ok()) return require(!patched.error().message.empty());
  require(json::parse(json::write(*patched)).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const auto kinds = kube::builtInKinds();
  auto parsed = json::parse(text, json::Limits{.bytes = 1u << 16, .depth = 40, .values = 10000});
  if (!parsed.ok()) return 0;
  const json::Value &current = parsed->at(0), &patch = parsed->at(1);
  check(json::applyJsonPatch(current, patch));
  json::Value merged = json::applyMergePatch(current, patch);
  check(merged);
  require(json::applyMergePatch(merged, patch) == merged);
  check(kube::strategicMerge(kinds[data[0] % kinds.size()].type, current, patch));
  return 0;
}

// Any text: the parser takes it or refuses it, in one piece or in many alike, and what it takes is
// written and read back as the same value. Patches and differences between values hold what they
// promise.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "json/diff.h"
#include "json/parse.h"
#include "json/patch.h"
#include "json/write.h"
#include "require.h"

using namespace cadre::json;

namespace {

// Documents that a stream gives when it comes in pieces of a size.
std::vector<Value> inPieces(std::string_view text, std::size_t size, bool* good) {
  std::vector<Value> documents;
  StreamParser parser([&](Value document) { documents.push_back(std::move(document)); });
  *good = true;
  for (std::size_t at = 0; at < text.size() && *good; at += size)
    *good = parser.feed(std::string(text.substr(at, size))).ok();
  if (*good) *good = parser.finish().ok();
  return documents;
}

void list(std::string_view text, std::size_t size) {
  ListParser parser([](Value) {}, {.drop_managed_fields = true});
  for (std::size_t at = 0; at < text.size(); at += size)
    if (!parser.feed(text.substr(at, size)).ok()) return;
  (void)parser.finish().ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const Limits limits{.bytes = 1u << 20, .depth = 40, .values = 10000};

  bool whole_good = false, pieces_good = false;
  auto whole = inPieces(text, text.size() + 1, &whole_good);
  auto pieces = inPieces(text, 1 + size % 7, &pieces_good);
  require(whole == pieces && whole_good == pieces_good);
  list(text, 1 + size % 5);

  auto value = parse(text, limits);
  if (!value.ok()) return 0;
  require(whole_good && whole.size() == 1 && whole[0] == *value);
  for (const std::string& written : {write(*value), writePretty(*value)}) {
    auto again = parse(written);
    require(again.ok() && *again == *value);
  }

  (void)parse(text, {.drop_managed_fields = true}).ok();
  require(diff(*value, *value).empty());
  require(applyMergePatch(*value, makeMergePatch(*value, *value)) == *value);
  // [document, patch] or [from, to]
  const Value& first = value->at(0);
  const Value& second = value->at(1);
  (void)applyJsonPatch(first, second, {.operations = 100, .added_values = 10000, .work = 100000});
  (void)applyMergePatch(first, second);
  (void)formatDiff(diff(first, second));
  require(diff(first, second).empty() == (first == second));
  return 0;
}

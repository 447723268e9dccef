#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cadre {

// Small text helpers, ASCII unless said otherwise. Pure.

std::vector<std::string_view> split(std::string_view text, char separator);
// Cuts at the first separator; the second part is empty when there is none.
std::pair<std::string_view, std::string_view> cut(std::string_view text,
                                                  std::string_view separator);
std::string_view trim(std::string_view text);
std::string lower(std::string_view text);
std::string upper(std::string_view text);
bool equalsIgnoreCase(std::string_view a, std::string_view b);
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Whole text as a decimal number, nothing if it is none or does not fit.
std::optional<std::int64_t> parseInt(std::string_view text);

// For query values and path segments: everything but letters, digits and -._~ becomes %XX.
std::string urlEncode(std::string_view text);
// Its reverse; '+' is a space, and what is no %XX stays as it is.
std::string urlDecode(std::string_view text);

std::string base64Encode(std::string_view bytes);
// Standard alphabet; white space is passed over, padding may be missing.
std::optional<std::string> base64Decode(std::string_view text);

std::string hexEncode(std::string_view bytes);  // in lower case

// At most `limit` bytes, cut at a UTF-8 boundary; "..." marks the cut.
std::string shorten(std::string_view text, std::size_t limit);

// A 64-bit FNV-1a: stable over versions and machines, so it may stand in names. Not against
// attackers.
std::uint64_t stableHash(std::string_view text);
// Eight characters of it in the letters and digits that names allow.
std::string shortHash(std::string_view text);

}  // namespace cadre

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cadre::json {

// The number of bytes of the UTF-8 character that a text starts with; 0 when it starts with none
// (a stray or missing continuation, an overlong form, a surrogate, beyond U+10FFFF, or empty).
std::size_t utf8Length(std::string_view text);

// The character that a text starts with, given its length from utf8Length(), not 0.
char32_t utf8Decode(std::string_view text, std::size_t length);

// Writes a character that is no surrogate and at most U+10FFFF.
void utf8Append(std::string& out, char32_t character);

// The text with U+FFFD in place of each byte that is not UTF-8.
std::string utf8Repair(std::string_view text);

}  // namespace cadre::json

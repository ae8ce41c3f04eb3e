#include "sim/error.hpp"

#include <string_view>

namespace trainyard {
namespace {

constexpr std::size_t kMostEchoed = 160;  // of what is quoted: longer than any name
constexpr std::size_t kMostInAll = 4000;  // longer than the longest list of names
constexpr std::string_view kGap = " … ";

/// A place at or before `at` where a character begins.
std::size_t character_before(std::string_view text, std::size_t at) {
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

/// The first two thirds of `most` bytes and the last third.
std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  const std::size_t first = character_before(text, most * 2 / 3), last = character_before(text, text.size() - most / 3);
  return std::string(text.substr(0, first)) + std::string(kGap) + std::string(text.substr(last));
}

}  // namespace

std::string readable_error(const std::string& original) {
  std::string text = original;
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  if (text.size() <= kMostEchoed) return text;
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find('"', at), close = open == std::string::npos ? open : text.find('"', open + 1);
    if (close == std::string::npos) {
      result += text.substr(at);
      break;
    }
    result += text.substr(at, open + 1 - at);
    result += shortened(std::string_view(text).substr(open + 1, close - open - 1), kMostEchoed) + '"';
    at = close + 1;
  }
  return shortened(result, kMostInAll);
}

}  // namespace trainyard

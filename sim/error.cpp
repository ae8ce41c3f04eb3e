#include "sim/error.hpp"

#include <string_view>

namespace trainyard {
namespace {

constexpr std::size_t kMostEchoed = 160;  // bytes of a quoted text: more than any name has
constexpr std::size_t kMostInAll = 4000;  // bytes of the whole text: more than the longest list of names has
constexpr std::string_view kGap = " … ";

/// Returns the last position, at most `position`, at which a UTF-8 character begins.
std::size_t character_before(std::string_view text, std::size_t position) {
  while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xc0) == 0x80) --position;
  return position;
}

/// Keeps the first two thirds of `most` bytes and the last third.
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
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t open = text.find('"', position),
                      close = open == std::string::npos ? open : text.find('"', open + 1);
    if (close == std::string::npos) {
      result += text.substr(position);
      break;
    }
    result += text.substr(position, open + 1 - position);
    result += shortened(std::string_view(text).substr(open + 1, close - open - 1), kMostEchoed) + '"';
    position = close + 1;
  }
  return shortened(result, kMostInAll);
}

}  // namespace trainyard

#include "topologies/device_noun.hpp"

#include <cctype>

namespace trainyard {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Returns true for nouns that take "an": "an FPGA", "an accelerator".
bool begins_with_vowel(const std::string& noun) {
  return noun == "FPGA" || (!noun.empty() && std::string("aeiou").find(noun.front()) != std::string::npos);
}

/// Returns true if the text ends with the article "a ".
bool ends_with_article(const std::string& text) {
  if (!text.ends_with("a ") && !text.ends_with("A ")) return false;
  return text.size() == 2 || !is_word(text[text.size() - 3]);
}

}  // namespace

std::string device_noun(ChipKind kind) {
  switch (kind) {
    case ChipKind::gpu:
      return "GPU";
    case ChipKind::tpu:
      return "TPU";
    case ChipKind::asic:
      return "accelerator";
    case ChipKind::fpga:
      return "FPGA";
  }
  return "device";
}

std::string common_noun(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == b) return a.empty() ? b : a;
  return "device";
}

std::string device_noun(const ClusterSpec& cluster) {
  std::string noun;
  for (const NodeType* type : cluster.types()) noun = common_noun(noun, device_noun(type->gpu.kind));
  return noun;
}

std::string in_words_of(const std::string& noun, const std::string& text) {
  constexpr std::string_view gpu = "GPU";
  if (noun == gpu || noun.empty()) return text;
  std::string words;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = i + gpu.size();
    const bool found = text.compare(i, gpu.size(), gpu) == 0 && (i == 0 || !is_word(text[i - 1]));
    const std::size_t after = found && end < text.size() && text[end] == 's' ? end + 1 : end;
    if (!found || (after < text.size() && is_word(text[after]))) {
      words += text[i++];
      continue;
    }
    if (begins_with_vowel(noun) && ends_with_article(words)) words.insert(words.size() - 1, "n");
    words += noun + (after > end ? "s" : "");
    i = after;
  }
  return words;
}

}  // namespace trainyard

#include "topologies/device_noun.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

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

/// The names that a vendor has for what texts call NVLink, NCCL and CUDA.
struct VendorWords {
  std::string_view architecture, links, library, runtime;
  bool operator==(const VendorWords&) const = default;
};

/// Returns the words for the chips whose architecture begins as listed.
VendorWords vendor_words(const Gpu& gpu) {
  static constexpr VendorWords all[] = {{"cdna", "Infinity Fabric", "RCCL", "HIP"},
                                        {"xe", "Xe Link", "NCCL", "Level Zero"},
                                        {"gaudi", "Gaudi's Ethernet", "NCCL", "SynapseAI"},
                                        {"ascend", "HCCS", "NCCL", "CANN"},
                                        {"trainium", "NeuronLink", "NCCL", "Neuron"}};
  const auto found =
      std::ranges::find_if(all, [&gpu](const VendorWords& w) { return gpu.architecture.starts_with(w.architecture); });
  return found == std::end(all) ? VendorWords{"", "NVLink", "NCCL", "CUDA"} : *found;
}

std::string with_word(const std::string& text, std::string_view word, std::string_view other) {
  if (word == other) return text;
  std::string words;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = i + word.size();
    const bool found = text.compare(i, word.size(), word) == 0 && (i == 0 || !is_word(text[i - 1])) &&
                       (end >= text.size() || !is_word(text[end]));
    words += found ? other : std::string_view(text).substr(i, 1);
    i += found ? word.size() : 1;
  }
  return words;
}

}  // namespace

std::string device_noun(ChipKind kind) {
  static constexpr const char* names[] = {"GPU", "TPU", "accelerator", "FPGA"};
  return names[static_cast<std::size_t>(kind)];
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

std::string in_words_of(const ClusterSpec& cluster, const std::string& text) {
  const std::string words = in_words_of(device_noun(cluster), text);
  const std::vector<const NodeType*> types = cluster.types();
  const VendorWords vendor = vendor_words(types.front()->gpu);
  if (!std::ranges::all_of(types, [&vendor](const NodeType* type) { return vendor_words(type->gpu) == vendor; }))
    return words;
  return with_word(with_word(with_word(words, "NVLink", vendor.links), "NCCL", vendor.library), "CUDA", vendor.runtime);
}

std::string rates_text(BytesPerSecond slowest, BytesPerSecond fastest) {
  const std::string from = show(slowest), to = show(fastest);
  return from == to ? to : fmt::format("{} to {}", from, to);
}

std::string cable_text(const DeviceGraph& graph, LinkId wire) {
  const auto links = graph.links();
  const BytesPerSecond forward = links[wire].capacity, back = links[wire ^ 1].capacity;
  std::string text = show(forward);
  if (forward != back) {
    const DeviceGraph::End end = graph.ends(wire);
    const bool from_drive = graph.devices()[end.from].kind == DeviceKind::nvme;
    const bool drive = from_drive || graph.devices()[end.to].kind == DeviceKind::nvme;
    text =
        drive ? fmt::format("reads {}, writes {}", show(from_drive ? forward : back), show(from_drive ? back : forward))
              : fmt::format("{} there, {} back", show(forward), show(back));
  }
  if (graph.medium(wire) >= 0)
    text += graph.medium(wire) == graph.medium(wire ^ 1) ? " half duplex" : " on a shared medium";
  return graph.is_up(wire) ? text : text + ", down";
}

}  // namespace trainyard

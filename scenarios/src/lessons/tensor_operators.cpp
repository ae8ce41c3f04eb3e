#include "scenarios/src/lessons/tensor_operators.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {

constexpr const char* kForwardEnd = ".reduce";
constexpr const char* kBackwardEnd = ".reduce.backward";
constexpr std::size_t kMostDrawnRanks = 8;

const Exchange* exchange_named(const std::vector<Exchange>& exchanges, const std::string& name) {
  const auto found = std::ranges::find_if(exchanges, [&name](const Exchange& e) {
    return e.name == name && e.axis == Axis::tensor && e.kind == ExchangeKind::all_reduce;
  });
  return found == exchanges.end() ? nullptr : &*found;
}

/// Returns the name of the forward kernel to which a backward kernel belongs: "fc1" for "fc1.dgrad".
std::string forward_name(const std::string& backward) { return backward.substr(0, backward.rfind('.')); }

/// Returns the kernels [first, end) whose matrices are cut: those from the first one with a gradient kernel between g
/// and f in the backward pass. `gradients`: names of the backward kernels before f.
CutPart part_between(const Layer& layer, int first, int end, const std::vector<std::string>& gradients) {
  CutPart part;
  const auto kernel = [&layer](int k) { return layer.forward[static_cast<std::size_t>(k)].name; };
  const auto has_gradient = [&](int k) {
    return std::ranges::any_of(gradients,
                               [&](const std::string& gradient) { return forward_name(gradient) == kernel(k); });
  };
  while (first < end && !has_gradient(first)) ++first;
  for (int k = first; k < end; ++k) part.forward.push_back(kernel(k));
  // The last product's bias is added after g, so its gradient kernel comes before g.
  const auto is_cut = [&part](const std::string& gradient) {
    return !gradient.ends_with(".bias_grad") &&
           std::ranges::find(part.forward, forward_name(gradient)) != part.forward.end();
  };
  part.backward.assign(std::ranges::find_if(gradients, is_cut), gradients.end());
  return part;
}

CutLayer cut_parts(const Layer& layer) {
  CutLayer cut{layer.name, {}, {}};
  int first = 0;  // kernels before it belong to earlier parts
  for (const Exchange& g : layer.forward_exchanges) {
    if (!g.name.ends_with(kForwardEnd) || !exchange_named(layer.forward_exchanges, g.name)) continue;
    const std::string name = g.name.substr(0, g.name.size() - std::string(kForwardEnd).size());
    const Exchange* f = exchange_named(layer.backward_exchanges, name + kBackwardEnd);
    if (!f) continue;
    int begin = 0;  // the backward pass comes to the parts in reverse order
    for (const Exchange& other : layer.backward_exchanges)
      if (other.name.ends_with(kBackwardEnd) && other.kernels_before < f->kernels_before)
        begin = std::max(begin, other.kernels_before);
    std::vector<std::string> gradients;
    for (int k = begin; k < f->kernels_before; ++k)
      gradients.push_back(layer.backward[static_cast<std::size_t>(k)].name);
    CutPart part = part_between(layer, first, g.kernels_before, gradients);
    part.name = name;
    if (!part.forward.empty() && !part.backward.empty()) cut.parts.push_back(std::move(part));
    first = g.kernels_before;
  }
  return cut;
}

bool sends_alike(const std::vector<OperatorTraffic>& ranks) {
  return std::ranges::all_of(ranks,
                             [&ranks](const OperatorTraffic& rank) { return rank.bytes == ranks.front().bytes; });
}

/// Returns the lane of a rank in one pass.
LessonLane rank_lane(const CutLayer& layer, std::size_t index, bool forward) {
  LessonLane lane{fmt::format("rank {}", layer.ranks[index]), "", {}};
  const auto add = [&lane](const std::string& label, Tone tone) {
    const auto place = static_cast<double>(lane.bars.size());
    lane.bars.push_back({place, place + 1, "", label, tone});
  };
  double bytes = 0;
  int messages = 0;
  const auto add_part = [&](const CutPart& part) {
    const OperatorTraffic& sent = (forward ? part.g_forward : part.f_backward)[index];
    bytes += sent.bytes;
    messages += sent.messages;
    add(forward ? "f: identity" : "g: identity", Tone::pale);
    for (const std::string& kernel : forward ? part.forward : part.backward) add(kernel, Tone::blue);
    add(forward ? "g: all-reduce" : "f: all-reduce", Tone::orange);
  };
  if (forward)
    std::for_each(layer.parts.begin(), layer.parts.end(), add_part);
  else
    std::for_each(layer.parts.rbegin(), layer.parts.rend(), add_part);
  lane.note = fmt::format("sends {:.6g} B in {}", bytes, counted_noun(messages, "message"));
  return lane;
}

LessonFrame pass_frame(const CutLayer& layer, bool forward) {
  LessonFrame frame{.caption = fmt::format("{} of {}: {} is the identity, {} an all-reduce",
                                           forward ? "forward pass" : "backward pass", layer.name, forward ? "f" : "g",
                                           forward ? "g" : "f"),
                    .detail = "operations between f and g, in their order; lengths are not times"};
  for (std::size_t i = 0; i < std::min(layer.ranks.size(), kMostDrawnRanks); ++i)
    frame.lanes.push_back(rank_lane(layer, i, forward));
  frame.end = static_cast<double>(frame.lanes.front().bars.size());
  frame.legend = {{"", "kernel on a part of the matrices", Tone::blue},
                  {"", "identity: no message", Tone::pale},
                  {"", "all-reduce over the ranks", Tone::orange}};
  if (layer.ranks.size() > kMostDrawnRanks)
    frame.remarks.push_back(fmt::format("{} more ranks are not drawn", layer.ranks.size() - kMostDrawnRanks));
  for (const CutPart& part : layer.parts) {
    const std::vector<OperatorTraffic>& sent = forward ? part.g_forward : part.f_backward;
    if (sends_alike(sent))
      frame.remarks.push_back(fmt::format("{}: each rank sends {:.6g} B at {}, and none at {}", part.name,
                                          sent.front().bytes, forward ? "g" : "f", forward ? "f" : "g"));
  }
  return frame;
}

}  // namespace

bool CutLayer::has_operators() const {
  return !parts.empty() && !sends_more && std::ranges::all_of(parts, [](const CutPart& part) {
    return part.g_forward.front().messages > 0 && part.f_backward.front().messages > 0;
  });
}

CutLayer cut_layer(const Network& network, std::vector<int> tensor_ranks) {
  CutLayer cut;
  if (tensor_ranks.size() > 1)
    for (const Layer& layer : network.layers) {
      if (layer.recomputes_all || layer.recomputed_exchanges > 0) break;
      cut = cut_parts(layer);
      if (!cut.parts.empty()) break;
    }
  for (CutPart& part : cut.parts) {
    part.f_backward.resize(tensor_ranks.size());
    part.g_forward.resize(tensor_ranks.size());
  }
  cut.ranks = std::move(tensor_ranks);
  return cut;
}

void CutLayerTraffic::transferred(const TransferRun& run) {
  if (!run.send || !run.last_leg) return;
  const std::string& name = names_[run.send->name];
  const auto rank = std::ranges::find(layer_.ranks, run.from);
  if (rank == layer_.ranks.end() || !name.starts_with(layer_.name + " ")) return;
  if (names_.groups().at(run.send->group).name != "tensor parallel") return;
  const auto index = static_cast<std::size_t>(rank - layer_.ranks.begin());
  for (CutPart& part : layer_.parts)
    for (const auto& [end, sent] : {std::pair{kForwardEnd, &part.g_forward}, std::pair{kBackwardEnd, &part.f_backward}})
      if (name == fmt::format("{} {}{}", layer_.name, part.name, end)) {
        (*sent)[index].bytes += run.bytes.value;
        (*sent)[index].messages += run.last ? 1 : 0;
        return;
      }
  layer_.sends_more = true;
}

std::vector<LessonFrame> operator_frames(const CutLayer& layer) {
  if (!layer.has_operators()) return {};
  return {pass_frame(layer, true), pass_frame(layer, false)};
}

}  // namespace trainyard

#include "topologies/cable_text.hpp"

#include <fmt/format.h>

namespace trainyard {

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

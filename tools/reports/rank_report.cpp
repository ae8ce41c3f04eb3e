#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include "scenarios/src/pictures/rank_view.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

std::string way_in_words(const RouteView& way) {
  if (way.hops.empty()) return "itself";
  return fmt::format("at most {} ({}), latency {}", show(way.rate), way.bottleneck_link, show(way.latency.seconds()));
}

}  // namespace

std::string rank_text(const RankView& view) {
  std::string text = fmt::format("rank {} on {}: tensor {}, context {}, data {}, pipeline {}; ", view.place.rank,
                                 view.place.device, view.place.coordinates.tensor, view.place.coordinates.context,
                                 view.place.coordinates.data, view.place.coordinates.pipeline);
  if (!view.unfolded_reason.empty())
    text += "simulated itself\n";
  else if (view.simulated == view.place.rank)
    text += fmt::format("simulated for an equivalence class of {} ranks\n", view.class_size);
  else
    text += fmt::format("as rank {}, which is simulated for an equivalence class of {} ranks\n", view.simulated,
                        view.class_size);
  TextTable table{"group", ">ranks", "members", ">next", "over"};
  for (const RankView::Group& g : view.groups)
    table.rows.push_back({g.what, fmt::format("{}", g.members.size()), ranks_in_words(g.members),
                          fmt::format("{}", g.next.to), way_in_words(g.next)});
  for (const RouteView& peer : view.peers)
    table.rows.push_back({peer.what, "", "", fmt::format("{}", peer.to), way_in_words(peer)});
  return table.rows.empty() ? text : text + table.text("  ");
}

std::string rank_timeline_text(const RankTimeline& timeline, int rank) {
  constexpr std::size_t kShown = 40;
  TextTable table{">from ms", ">until ms", "stream", ">operations", "what"};
  const std::size_t shown = std::min(kShown, timeline.rows.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const RankTimeline::Row& row = timeline.rows[i];
    table.rows.push_back({fmt::format("{:.3f}", row.begin * 1e3), fmt::format("{:.3f}", row.end * 1e3), row.stream,
                          fmt::format("{}", row.operations), row.what});
  }
  std::string text = table.text("  ");
  if (shown < timeline.rows.size())
    text += fmt::format("  … {} more rows (--trace FILE --trace-ranks {} has every operation)\n",
                        timeline.rows.size() - shown, rank);
  return text;
}

}  // namespace trainyard

#include "scenarios/src/pictures/rank_view.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/src/running/step_run.hpp"
#include "sim/stable_sort.hpp"
#include "strategies/step/rank_peers.hpp"

namespace trainyard {
namespace {

/// Records the operations of one actor.
class ActorTimeline : public Observer {
 public:
  explicit ActorTimeline(const StepRun& run, Actor actor) : run_(run), actor_(actor) {}
  Interest interest() const override { return {.transfers = false}; }

  void finished(const OpRun& run) override {
    if (run.op->actor != actor_ || run.op->kind == Kind::mark) return;
    if (last_.size() <= run.op->stream) last_.resize(run.op->stream + 1U, rows.size());
    std::size_t& last = last_[run.op->stream];
    const std::string& what = run_.names[run.op->name];
    const std::string& stream = run_.streams.at(run.op->stream);
    // Each message has a row, because each waits for its own peer.
    const bool message = run.op->kind == Kind::send || run.op->kind == Kind::recv;
    if (message || last >= rows.size() || rows[last].stream != stream || rows[last].what != what) {
      last = rows.size();
      rows.push_back({stream, what, run.started.value, run.ended.value, 0});
    }
    rows[last].end = run.ended.value;
    ++rows[last].operations;
  }
  std::vector<RankTimeline::Row> rows;

 private:
  const StepRun& run_;
  Actor actor_;
  std::vector<std::size_t> last_;  // last row of each stream
};

}  // namespace

void require_rank(const Scenario& s, int rank) {
  if (rank < 0 || rank >= s.ranks())
    throw UserError(fmt::format("--rank {}: the scenario has ranks 0 to {}", rank, s.ranks() - 1));
}

RankView rank_view(const Scenario& s, const Plan& laid_out, int rank) {
  require_rank(s, rank);
  SimulateOptions options;
  options.lays_out_only = true;
  const StepRun run(s, laid_out, options);
  RankView view;
  view.place = mesh(s)[static_cast<std::size_t>(rank)];
  view.unfolded_reason = run.unfolded_reason;
  view.simulated = run.rank_of(run.actor_of_rank(rank));
  if (run.fold) view.class_size = static_cast<int>(run.fold->members(run.actor_of_rank(rank)).size());
  const auto route = [&](std::string what, int to) {
    return route_view(run.machine.cluster, std::move(what), rank, to);
  };
  const RankPeers peers(rank, run.plan);
  for (std::size_t i = 0; i < kLanes; ++i) {
    const RankPeers::LanePeers& lane = peers.lanes[i];
    if (!lane.group) continue;
    const std::vector<int>& members = lane.group->members;
    const int next = members[(position(lane.index) + 1) % members.size()];
    view.groups.push_back({name_of(static_cast<Lane>(i)), members, route("to the next", next)});
  }
  for (std::size_t stage = 0; stage < peers.stages.size(); ++stage) {
    std::set<int> partners;
    for (const auto* messages : {&peers.stages[stage].sends, &peers.stages[stage].takes})
      for (const StageMessage& message : *messages) partners.insert(message.peer);
    for (const int peer : partners) view.peers.push_back(route(fmt::format("pipeline stage {}", stage), peer));
  }
  return view;
}

nlohmann::ordered_json to_json(const RankView& view) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array(), peers = nlohmann::ordered_json::array();
  for (const RankView::Group& g : view.groups)
    groups.push_back({{"group", g.what}, {"members", g.members}, {"next", to_json(g.next)}});
  for (const RouteView& peer : view.peers) peers.push_back(to_json(peer));
  return {{"rank", to_json(std::vector<MeshRank>{view.place})["mesh"][0]},
          {"simulated_rank", view.simulated},
          {"stands_for", view.class_size},
          {"unfolded", view.unfolded_reason},
          {"groups", groups},
          {"peers", peers}};
}

RankTimeline rank_timeline(const Scenario& s, const Plan& laid_out, int rank) {
  require_rank(s, rank);
  std::optional<ActorTimeline> of_actor;
  SimulateOptions options;
  options.critical_path = false;
  options.observe.emplace_back([&](const StepRun& run) { return &of_actor.emplace(run, run.actor_of_rank(rank)); });
  const StepRun run(s, laid_out, options);
  RankTimeline timeline{of_actor->rows};
  sort_stably(timeline.rows, [](const RankTimeline::Row& a, const RankTimeline::Row& b) { return a.begin < b.begin; });
  return timeline;
}

}  // namespace trainyard

#include "scenarios/src/pictures/views.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "models/software/training_memory.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "sim/stable_sort.hpp"
#include "strategies/collectives/library_model.hpp"
#include "strategies/step/rank_peers.hpp"
#include "strategies/step/training_programs.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

FoldView fold_view(const Scenario& s) {
  const Plan laid_out = plan(s);
  SimulateOptions options;
  options.lays_out_only = true;
  const StepRun run(s, laid_out, options);
  FoldView view;
  view.ranks = s.ranks();
  view.unfolded_reason = run.unfolded_reason;
  if (!run.fold) return view;
  for (Actor c = 0; c < run.fold->classes(); ++c) {
    const std::vector<Actor>& members = run.fold->members(c);
    view.classes.push_back({members.front(), static_cast<int>(members.size()), ranks_in_words(members),
                            run.machine.cluster.graph().devices()[run.machine.cluster.device(members.front())].name});
  }
  view.links = static_cast<int>(run.fold->links().size());
  view.reasons = run.fold->reasons();
  return view;
}

nlohmann::ordered_json to_json(const FoldView& view) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (const FoldView::Class& c : view.classes)
    classes.push_back({{"rank", c.rank}, {"size", c.size}, {"members", c.members}, {"device", c.device}});
  return {{"ranks", view.ranks},
          {"classes", classes},
          {"link_classes", view.links},
          {"reasons", view.reasons},
          {"unfolded", view.unfolded_reason}};
}

namespace {

using nlohmann::ordered_json;

const Device& device(const DeviceGraph& graph, DeviceId id) { return graph.devices()[id]; }

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

std::vector<LinkClass> link_classes(const DeviceGraph& graph) {
  std::vector<LinkClass> classes;
  std::map<std::tuple<std::string, std::string, std::string, double, std::int64_t>, std::size_t> class_numbers;
  for (std::size_t i = 0; i < graph.wires().size(); ++i) {
    const Link& link = graph.wires()[i];
    const DeviceGraph::End end = graph.ends(static_cast<LinkId>(i));
    const std::string from = name_of(device(graph, end.from).kind), to = name_of(device(graph, end.to).kind);
    const auto [position, fresh] =
        class_numbers.try_emplace({link.kind, from, to, link.capacity.value, end.latency.count}, classes.size());
    if (fresh) classes.push_back({link.kind, from, to, link.capacity, end.latency, 0, link.name, {}});
    ++classes[position->second].count;
    classes[position->second].links.push_back(static_cast<LinkId>(i));
  }
  return classes;
}

RouteView route_view(const ClusterMachine& machine, std::string what, int from, int to) {
  const DeviceGraph& graph = machine.graph();
  const Route route = machine.route(from, to, PathClass::automatic);
  RouteView view{std::move(what), from, to, {}, "", "", {}, route.latency, route.latency};
  for (const LinkUse& use : route.links) {
    const Link& link = graph.links()[use.link];
    if (graph.is_wire(use.link)) {
      const DeviceGraph::End end = graph.ends(use.link);
      if (view.hops.empty()) view.hops.push_back(device(graph, end.from).name);
      view.hops.push_back(device(graph, end.to).name);
      view.software.count -= end.latency.count;
    }
    // A bus or host memory on the route may limit the rate too, and a message may cross it more than once.
    const BytesPerSecond rate = link.capacity / use.weight;
    if (!view.bottleneck_link.empty() && rate >= view.rate) continue;
    view.bottleneck_link = link.name;
    view.bottleneck_kind = link.kind;
    view.rate = rate;
  }
  return view;
}

std::string ranks_in_words(const std::vector<int>& members) {
  std::string text;
  constexpr int kMostRuns = 6;
  int runs = 0;
  for (std::size_t i = 0; i < members.size();) {
    const int step = i + 1 < members.size() ? members[i + 1] - members[i] : 1;
    std::size_t end = i + 1;
    while (end < members.size() && members[end] - members[end - 1] == step) ++end;
    if (end - i == 2 && step > 1) end = i + 1;
    if (++runs > kMostRuns) return text + ", …";
    if (!text.empty()) text += ", ";
    text += end - i == 1 ? fmt::format("{}", members[i])
            : step == 1  ? fmt::format("{}-{}", members[i], members[end - 1])
                         : fmt::format("{}, {} … {}", members[i], members[i + 1], members[end - 1]);
    i = end;
  }
  return text;
}

Schedule schedule(const Plan& plan, int rank, std::size_t most) {
  static constexpr const char* kinds[] = {"compute", "memory", "send", "recv", "delay", "mark", "join"};
  Names names;
  const TrainingPrograms programs(plan.training, names);
  const TrainingStreams& streams = programs.streams();
  const auto program = programs.program(rank);
  Schedule all;
  OpReader reader(*program);
  for (Op op; reader.next(op) == Pull::op;) {
    if (++all.operations > most) continue;
    ScheduleLine line{all.operations,
                      streams.names()[op.stream],
                      kinds[static_cast<int>(op.kind)],
                      "",
                      names[op.name],
                      op.kind == Kind::join ? 0 : op.work.flops.value,
                      op.work.bytes.value,
                      op.memory.change,
                      -1};
    // A mark allocates or frees memory of this class.
    if (op.kind == Kind::mark && op.memory.change != 0)
      line.what += fmt::format(": {}", name_of(static_cast<MemoryClass>(op.memory_class)));
    if (op.kind == Kind::join) line.bytes = op.message.bytes.value;
    for (const Dep& dep : op.deps)
      if (dep.count > 0)
        line.after += fmt::format("{}{}:{}", line.after.empty() ? "" : " ", streams.names()[dep.stream], dep.count);
    if (op.kind == Kind::send || op.kind == Kind::recv) {
      line.peer = program->slots()[op.message.slot];
      line.bytes = op.message.bytes.value;
    }
    all.lines.push_back(std::move(line));
  }
  return all;
}

std::vector<MeshRank> mesh(const Scenario& s) {
  std::vector<MeshRank> ranks;
  int first = 0;  // first rank of the node
  for (int rank = 0; rank < s.ranks(); ++rank) {
    const int node = s.cluster.node_of_gpu(rank);
    first = rank == 0 || node != ranks.back().node ? rank : first;
    const Mesh& m = s.plan.mesh;
    ranks.push_back({rank, node, m.coordinates(rank), m.expert > 1 ? m.expert_of(rank) : 0,
                     m.expert_tensor > 1 ? m.expert_tensor_of(rank) : 0,
                     fmt::format("node{}/gpu{}", node, rank - first)});
  }
  return ranks;
}

bool uses_pxn(const Scenario& s) {
  if (s.cluster.nodes < 2) return false;
  NodeSpread all{0, s.cluster.nodes, s.cluster.node.gpus};
  for (const NodeType* type : s.cluster.types()) all.fewest = std::min(all.fewest, type->gpus);
  all.ranks = s.cluster.gpus();
  try {
    return library_model(s.cluster, s.software.nccl_choice).model->relays(all);
  } catch (const UserError&) {  // chips without NCCL
    return false;
  }
}

MachineView machine_view(const Scenario& s) {
  const ClusterMachine machine(s.cluster, s.software);
  MachineView view;
  for (const Device& d : machine.graph().devices()) {
    const std::string kind = name_of(d.kind);
    const auto position = std::ranges::find_if(view.devices, [&](const auto& entry) { return entry.first == kind; });
    if (position == view.devices.end())
      view.devices.emplace_back(kind, 1);
    else
      ++position->second;
  }
  view.links = link_classes(machine.graph());
  const int gpus = s.cluster.node.gpus;
  if (gpus > 1) view.routes.push_back(route_view(machine, "within a node", 0, 1));
  if (s.cluster.nodes > 1) view.routes.push_back(route_view(machine, "between nodes", 0, gpus));
  if (s.cluster.nodes > 1 && s.cluster.node.hcas < gpus)
    view.routes.push_back(route_view(machine, "between nodes, from the last GPU", gpus - 1, gpus));
  return view;
}

ordered_json to_json(const Schedule& all) {
  ordered_json lines = ordered_json::array();
  for (const ScheduleLine& line : all.lines) {
    ordered_json& out = lines.emplace_back();
    out = {{"number", line.number}, {"stream", line.stream}, {"kind", line.kind},
           {"flops", line.flops},   {"bytes", line.bytes},   {"memory_change_bytes", line.memory},
           {"after", line.after},   {"what", line.what}};
    if (line.peer >= 0) out["peer"] = line.peer;
  }
  return {{"operations", all.operations}, {"schedule", lines}};
}

ordered_json to_json(const std::vector<MeshRank>& ranks) {
  ordered_json out = ordered_json::array();
  for (const MeshRank& r : ranks)
    out.push_back({{"rank", r.rank},
                   {"tensor_parallel", r.coordinates.tensor},
                   {"context_parallel", r.coordinates.context},
                   {"data_parallel", r.coordinates.data},
                   {"pipeline_parallel", r.coordinates.pipeline},
                   {"expert_parallel", r.expert},
                   {"expert_tensor_parallel", r.expert_tensor},
                   {"node", r.node},
                   {"device", r.device}});
  return {{"mesh", out}};
}

ordered_json to_json(const RouteView& r) {
  return {{"what", r.what},
          {"from_rank", r.from},
          {"to_rank", r.to},
          {"hops", r.hops},
          {"limit", r.bottleneck_link},
          {"rate_Bps", r.rate.value},
          {"latency_s", r.latency.seconds().value},
          {"software_latency_s", r.software.seconds().value}};
}

ordered_json to_json(const MachineView& view) {
  ordered_json devices = ordered_json::object(), links = ordered_json::array(), routes = ordered_json::array();
  for (const auto& [kind, count] : view.devices) devices[kind] = count;
  for (const LinkClass& c : view.links)
    links.push_back({{"kind", c.kind},
                     {"from", c.from},
                     {"to", c.to},
                     {"count", c.count},
                     {"rate_Bps", c.rate.value},
                     {"latency_s", c.latency.seconds().value},
                     {"example", c.example}});
  for (const RouteView& r : view.routes) routes.push_back(to_json(r));
  return {{"devices", devices}, {"links", links}, {"routes", routes}};
}

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

namespace {

std::vector<FieldRow> schedule_json_rows() {
  return {{"operations", "number", "number of operations of the rank", ""},
          {"schedule", "list", "operations; without --all the first of them", ""},
          {"schedule[].number", "number", "number of the operation", ""},
          {"schedule[].stream", "text", "stream that it runs on", ""},
          {"schedule[].kind", "text", "kind of the operation: kernel, send, …", ""},
          {"schedule[].flops", "FLOP", "floating-point operations", ""},
          {"schedule[].bytes", "bytes", "bytes that it moves or sends", ""},
          {"schedule[].memory_change_bytes", "bytes", "memory that it takes (above 0) or frees", ""},
          {"schedule[].after", "text", "operations that it waits for", ""},
          {"schedule[].what", "text", "the work or the message", ""},
          {"schedule[].peer", "number", "rank at the other end", "of messages"}};
}
const RegisterJsonReference schedule_json_reference{"show --schedule", "operations of one rank, in order",
                                                    schedule_json_rows};

std::vector<FieldRow> mesh_json_rows() {
  return {{"mesh", "list", "ranks in their order", ""},
          {"mesh[].rank", "number", "number of the rank", ""},
          {"mesh[].tensor_parallel", "number", "coordinate among tensor ranks", ""},
          {"mesh[].context_parallel", "number", "coordinate among context ranks", ""},
          {"mesh[].data_parallel", "number", "coordinate among replicas", ""},
          {"mesh[].pipeline_parallel", "number", "pipeline stage of the rank", ""},
          {"mesh[].expert_parallel", "number", "coordinate among expert ranks", ""},
          {"mesh[].expert_tensor_parallel", "number", "coordinate among tensor ranks of experts", ""},
          {"mesh[].node", "number", "node of the rank", ""},
          {"mesh[].device", "text", "device of the rank", ""}};
}
const RegisterJsonReference mesh_json_reference{"show --mesh", "ranks, their coordinates and devices", mesh_json_rows};

std::vector<FieldRow> fold_json_rows() {
  return {{"ranks", "number", "number of ranks", ""},
          {"classes", "list", "equivalence classes", ""},
          {"classes[].rank", "number", "rank that is simulated", ""},
          {"classes[].size", "number", "number of ranks of the class", ""},
          {"classes[].members", "text", "ranks of the class", ""},
          {"classes[].device", "text", "device of the simulated rank", ""},
          {"link_classes", "number", "number of classes of links", ""},
          {"reasons", "[text]", "differences between the classes", ""},
          {"unfolded", "text", "reason why each rank is simulated; empty: ranks are folded", ""}};
}
const RegisterJsonReference fold_json_reference{"show --fold", "which ranks are simulated for which", fold_json_rows};

std::vector<FieldRow> machine_json_rows() {
  return {{"devices", "{key: number}", "number of devices by kind", ""},
          {"links", "list", "classes of links", ""},
          {"links[].kind", "text", "kind of the link", ""},
          {"links[].from", "text", "kind of device at one end", ""},
          {"links[].to", "text", "kind of device at the other end", ""},
          {"links[].count", "number", "number of such links", ""},
          {"links[].rate_Bps", "B/s", "rate of a link", ""},
          {"links[].latency_s", "s", "latency of a link", ""},
          {"links[].example", "text", "name of one of them", ""},
          {"routes", "list", "paths of messages", ""},
          {"routes[].what", "text", "which ranks the route joins", ""},
          {"routes[].from_rank", "number", "rank that sends", ""},
          {"routes[].to_rank", "number", "rank that receives", ""},
          {"routes[].hops", "[text]", "devices on the route", ""},
          {"routes[].limit", "text", "name of the slowest link", ""},
          {"routes[].rate_Bps", "B/s", "rate of the slowest link", ""},
          {"routes[].latency_s", "s", "latency of the route", ""},
          {"routes[].software_latency_s", "s", "the part of it that is software", ""}};
}
const RegisterJsonReference machine_json_reference{"show --machine", "devices, links and the paths of messages",
                                                   machine_json_rows};

std::vector<FieldRow> rank_json_rows() {
  return {{"rank", "object", "place of the rank", ""},
          {"rank.rank", "number", "number of the rank", ""},
          {"rank.tensor_parallel", "number", "coordinate among tensor ranks", ""},
          {"rank.context_parallel", "number", "coordinate among context ranks", ""},
          {"rank.data_parallel", "number", "coordinate among replicas", ""},
          {"rank.pipeline_parallel", "number", "pipeline stage of the rank", ""},
          {"rank.expert_parallel", "number", "coordinate among expert ranks", ""},
          {"rank.expert_tensor_parallel", "number", "coordinate among tensor ranks of experts", ""},
          {"rank.node", "number", "node of the rank", ""},
          {"rank.device", "text", "device of the rank", ""},
          {"simulated_rank", "number", "rank that is simulated in its place", ""},
          {"stands_for", "number", "number of ranks of its equivalence class", ""},
          {"unfolded", "text", "reason why each rank is simulated; empty: ranks are folded", ""},
          {"groups", "list", "groups that it exchanges data in", ""},
          {"groups[].group", "text", "name of the group", ""},
          {"groups[].members", "[number]", "ranks of the group", ""},
          {"groups[].next", "object", "route to the next rank of the group", ""},
          {"groups[].next.what", "text", "which ranks the route joins", ""},
          {"groups[].next.from_rank", "number", "rank that sends", ""},
          {"groups[].next.to_rank", "number", "rank that receives", ""},
          {"groups[].next.hops", "[text]", "devices on the route", ""},
          {"groups[].next.limit", "text", "name of the slowest link", ""},
          {"groups[].next.rate_Bps", "B/s", "rate of the slowest link", ""},
          {"groups[].next.latency_s", "s", "latency of the route", ""},
          {"groups[].next.software_latency_s", "s", "the part of it that is software", ""},
          {"peers", "list", "routes to the ranks of neighbouring stages", ""},
          {"peers[].what", "text", "which ranks the route joins", ""},
          {"peers[].from_rank", "number", "rank that sends", ""},
          {"peers[].to_rank", "number", "rank that receives", ""},
          {"peers[].hops", "[text]", "devices on the route", ""},
          {"peers[].limit", "text", "name of the slowest link", ""},
          {"peers[].rate_Bps", "B/s", "rate of the slowest link", ""},
          {"peers[].latency_s", "s", "latency of the route", ""},
          {"peers[].software_latency_s", "s", "the part of it that is software", ""}};
}
const RegisterJsonReference rank_json_reference{"show --rank", "place, groups and peers of a rank", rank_json_rows};

}  // namespace

}  // namespace trainyard

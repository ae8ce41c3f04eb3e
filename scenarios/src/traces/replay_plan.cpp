#include "scenarios/src/traces/replay_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scenarios/src/reading/read_collective.hpp"
#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {

double whole_bytes(Operation operation, double of_rank, std::size_t ranks) {
  return gives_block(operation) ? of_rank * static_cast<double>(ranks) : of_rank;
}

double rank_bytes(Operation operation, double collective_bytes, std::size_t ranks) {
  return gives_block(operation) ? collective_bytes / static_cast<double>(ranks) : collective_bytes;
}

ReplayPlan::ReplayPlan(const ReplayOptions& options, const ClusterMachine& machine)
    : options_(options), machine_(machine), used_(options.algorithms.size()) {
  for (std::vector<ChakraNode>& nodes : read_nodes()) {
    RankReplay& rank = ranks.emplace_back();
    rank.nodes = std::move(nodes);
    rank.steps = in_order(rank.nodes, file(ranks.size() - 1));
  }
  groups_ = std::make_unique<CommGroups>(static_cast<int>(ranks.size()), options.dims);
  std::filesystem::path groups = options.groups;
  if (groups.empty() && std::filesystem::exists(options.prefix.string() + ".groups.json"))
    groups = options.prefix.string() + ".groups.json";
  if (!groups.empty()) groups_->read(groups);
  if (recorded)
    for (auto& [name, members] : std::exchange(recorded->groups, {}))
      groups_->add(name, members, options.prefix.string());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const ChakraNode& node : ranks[rank].nodes)
      if (node.type == ChakraType::metadata) groups_->read(node, file(rank));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) lay_out(rank);
  require_used();
  require_all_met();
  require_all_received();
}

/// Reads the nodes of all ranks, and notes their files.
std::vector<std::vector<ChakraNode>> ReplayPlan::read_nodes() {
  const int gpus = machine_.spec().gpus();
  if (is_kineto(options_.prefix) && !std::filesystem::exists(trace_file(options_.prefix, 0))) {
    recorded = read_kineto_step(options_.prefix, options_.kineto, gpus);
    files_ = recorded->files;
    return std::exchange(recorded->ranks, {});
  }
  if (options_.kineto.step || options_.kineto.ranks > 0)
    throw UserError("--step, --ranks: only with traces of a profiler (.json, .json.gz, .sqlite, or their folder)");
  std::vector<std::vector<ChakraNode>> nodes = read_trace(options_.prefix, gpus);
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) files_.push_back(trace_file(options_.prefix, rank));
  return nodes;
}

std::size_t ReplayPlan::nodes() const {
  std::size_t nodes = 0;
  for (const RankReplay& rank : ranks) nodes += rank.nodes.size();
  return nodes;
}

namespace {

/// Numbers the streams of a rank in the order of their first use.
class StreamNumbers {
 public:
  StreamNumbers(std::vector<std::string>& names, std::string where) : names_(names), where_(std::move(where)) {}

  /// Returns the first of `count` consecutive streams with this name.
  Stream stream(const std::string& name, int count = 1) {
    const auto [found, fresh] = numbers_.try_emplace({name, count}, static_cast<Stream>(names_.size()));
    if (!fresh) return found->second;
    if (names_.size() + static_cast<std::size_t>(count) > kMaxStreams)
      throw UserError(
          fmt::format("{}: more than {} streams: communicators, and peers of messages, have one each; the attribute "
                      "`stream` puts nodes on the same one",
                      where_, kMaxStreams));
    for (int i = 0; i < count; ++i) names_.push_back(count == 1 ? name : fmt::format("{} {}", name, i));
    return found->second;
  }

 private:
  std::vector<std::string>& names_;
  std::string where_;
  std::map<std::pair<std::string, int>, Stream> numbers_;
};

std::string stream_name(const ChakraNode& node) {
  if (node.on_host > 0 && node.type == ChakraType::compute && node.stream < 0)
    return node.thread >= 0 ? fmt::format("host thread {}", node.thread) : "host";
  if (node.stream >= 0) return fmt::format("stream {}", node.stream);
  switch (node.type) {
    case ChakraType::invalid:
    case ChakraType::metadata:
      return "metadata";
    case ChakraType::load:
    case ChakraType::store:
      return "memory";
    case ChakraType::send:
      return fmt::format("send to {}", node.destination);
    case ChakraType::recv:
      return fmt::format("receive from {}", node.source);
    default:
      return "compute";
  }
}

}  // namespace

void ReplayPlan::lay_out(std::size_t number) {
  RankReplay& rank = ranks[number];
  StreamNumbers streams(rank.streams, file(number));
  std::map<int, std::uint32_t> met;  // number of collectives so far, by communicator
  for (ReplayStep& step : rank.steps) {
    const ChakraNode& node = *step.node;
    if (node.type == ChakraType::collective) {
      lay_out_collective(number, step, met);
      const ReplayCall& call = rank.calls[step.call];
      step.stream = streams.stream(node.stream >= 0 ? fmt::format("stream {}", node.stream)
                                                    : fmt::format("communicator {}", call.communicator));
      const int channels = call.what->algorithm->channels_of(
          {call.index, static_cast<int>(communicator(call.communicator).members.size()), &call.what->settings});
      if (call.what->settings.fidelity == Fidelity::messages)
        step.more = streams.stream(fmt::format("channels of communicator {}", call.communicator), 2 * channels - 1);
      continue;
    }
    step.stream = streams.stream(stream_name(node));
    if (node.type == ChakraType::send || node.type == ChakraType::recv) lay_out_message(number, step);
    if (node.type == ChakraType::load || node.type == ChakraType::store) lay_out_memory(number, step);
  }
  if (rank.streams.empty()) rank.streams.emplace_back("compute");
}

void ReplayPlan::lay_out_message(std::size_t number, ReplayStep& step) {
  const ChakraNode& node = *step.node;
  const bool sends = node.type == ChakraType::send;
  const double peer = sends ? node.destination : node.source, self = sends ? node.source : node.destination;
  const char *peer_name = sends ? "comm_dst" : "comm_src", *self_name = sends ? "comm_src" : "comm_dst";
  const std::string where = place_in_trace(file(number), node);
  if (peer < 0) throw UserError(fmt::format("{}: a message without {}", where, peer_name));
  if (peer >= static_cast<double>(ranks.size()) || peer == static_cast<double>(number))
    throw UserError(fmt::format("{}: {} is {}; another one of the ranks 0 to {} expected", where, peer_name, peer,
                                ranks.size() - 1));
  if (self >= 0 && self != static_cast<double>(number))
    throw UserError(fmt::format("{}: {} is {}, in the file of rank {}", where, self_name, self, number));
  if (node.mode > static_cast<double>(Mode::put) || node.path >= kPathClasses)
    throw UserError(fmt::format("{}: trainyard_mode {}, trainyard_path {}: unknown", where, node.mode, node.path));
  std::vector<Actor>& slots = ranks[number].slots;
  const auto found = std::ranges::find(slots, static_cast<Actor>(peer));
  step.slot = static_cast<std::uint16_t>(found - slots.begin());
  if (found == slots.end()) slots.push_back(static_cast<Actor>(peer));
}

/// Lays out loads from the memory of the host and stores to it, over PCIe.
void ReplayPlan::lay_out_memory(std::size_t number, ReplayStep& step) {
  if (!options_.remote_memory || step.node->duration || step.node->tensor == 0) return;
  const auto rank = static_cast<Actor>(number);
  const DeviceId socket = machine_.socket_of(rank);
  if (socket < 0)
    throw UserError(fmt::format("--remote-memory: {} is not attached to a CPU", machine_.actor_name(rank)));
  const Actor cpu = machine_.actor(socket);
  const bool loads = step.node->type == ChakraType::load;
  const GroupFlow::Edge edge{loads ? cpu : rank, loads ? rank : cpu, 1};
  std::vector<const GroupFlow*>& flows = ranks[number].flows;
  const auto found = std::ranges::find_if(
      flows, [&edge](const GroupFlow* flow) { return flow->by_engines && flow->edges.front().from == edge.from; });
  step.slot = static_cast<std::uint16_t>(found - flows.begin());
  if (found != flows.end()) return;
  memory_routes_.push_back({{edge}, {}, 0, 1, true});
  flows.push_back(&memory_routes_.back());
}

/// Returns the algorithm of the last option that applies to the operation, or null if none does.
const Collective* ReplayPlan::chosen_algorithm(Operation operation) {
  const Collective* chosen = nullptr;
  for (std::size_t i = 0; i < options_.algorithms.size(); ++i) {
    const std::string& text = options_.algorithms[i];
    const std::size_t equals = text.find('=');
    const std::string name = equals == std::string::npos ? text : text.substr(equals + 1);
    if (equals != std::string::npos && parse_operation(text.substr(0, equals)) != operation) continue;
    const std::vector<std::string> names = collectives(operation).names();
    const bool has = std::ranges::any_of(names, [&](const std::string& k) { return same_name(k, name); });
    if (!has && equals == std::string::npos) continue;
    chosen = &collectives(operation).find(name, Place::named("--algorithm " + text));
    used_[i] = true;
  }
  return chosen;
}

void ReplayPlan::require_used() const {
  for (std::size_t i = 0; i < used_.size(); ++i)
    if (!used_[i])
      throw UserError(fmt::format(
          "--algorithm {}: no collective of the trace has an algorithm of that name (trainyard list collectives)",
          options_.algorithms[i]));
}

/// Lays out a collective as training lays out its groups (strategies/plan/lanes.cpp).
const ReplayCollective& ReplayPlan::collective(int communicator, Operation operation, int root) {
  std::unique_ptr<ReplayCollective>& entry = collectives_[{communicator, operation, root}];
  if (entry) return *entry;
  const std::vector<int>& members = groups_->communicators()[static_cast<std::size_t>(communicator)].members;
  const ClusterSpec& cluster = machine_.spec();
  entry = std::make_unique<ReplayCollective>();
  entry->algorithm = chosen_algorithm(operation);
  const bool modelled = !entry->algorithm && members.size() > 1;
  if (!entry->algorithm) entry->algorithm = &default_collective(operation);
  CollectiveSettings& settings = entry->settings;
  settings.root = root;
  place_on(settings, cluster, static_cast<int>(members.size()));
  if (modelled) {
    if (!library_) library_ = library_model(cluster, machine_.software().nccl_choice);
    settings.fidelity = Fidelity::modelled;
    settings.model = library_->model;
  }
  std::vector<int> nodes;
  for (const int member : members) nodes.push_back(cluster.node_of_gpu(member));
  settings.place(nodes, members);
  settings.place_on_chips(members);
  if (modelled) (std::ranges::count(nodes, nodes.front()) < std::ssize(nodes) ? between_nodes_ : in_nodes_) = true;
  const Place where = Place::named("--algorithm " + entry->algorithm->name);
  if (entry->algorithm->switches != SwitchKind::none)
    fail(where, "an algorithm with reducing switches can only run as a single collective (trainyard bench)");
  if (modelled) settings.flow = std::make_shared<ModelledFlow>(modelled_flow(operation, settings, members));
  require_fits(*entry->algorithm, {0, static_cast<int>(members.size()), &settings}, where);
  return *entry;
}

void ReplayPlan::lay_out_collective(std::size_t number, ReplayStep& step, std::map<int, std::uint32_t>& met) {
  RankReplay& rank = ranks[number];
  const ChakraNode& node = *step.node;
  const std::string where = place_in_trace(file(number), node);
  const Operation operation = operation_of(node, where);
  const int group = groups_->communicator_of(static_cast<int>(number), node, file(number));
  const std::vector<int>& members = communicator(group).members;
  const auto index_of = [&members](int member) {
    return static_cast<int>(std::ranges::find(members, member) - members.begin());
  };
  int root = 0;
  if (has_root(operation) && node.root >= 0) {
    root = index_of(static_cast<int>(std::min(node.root, 1e9)));
    if (root == static_cast<int>(members.size()))
      throw UserError(fmt::format("{}: root_rank {} is not in the group", where, node.root));
  }
  const ReplayCollective& what = collective(group, operation, root);
  step.instance = ++met[group];
  meet(number, group, operation, step);
  const auto found = std::ranges::find_if(rank.calls, [&what](const ReplayCall& c) { return c.what == &what; });
  step.call = static_cast<std::uint16_t>(found - rank.calls.begin());
  if (found != rank.calls.end()) return;
  ReplayCall& call = rank.calls.emplace_back();
  call.what = &what;
  call.communicator = group;
  call.index = index_of(static_cast<int>(number));
  call.peers = peers_of(*what.algorithm, {call.index, static_cast<int>(members.size()), &what.settings});
  call.first_slot = static_cast<std::uint16_t>(rank.slots.size());
  for (const int peer : call.peers) rank.slots.push_back(members[static_cast<std::size_t>(peer)]);
  call.flow = static_cast<std::uint16_t>(rank.flows.size());
  if (what.settings.flow) rank.flows.push_back(what.settings.flow.get());
}

/// Checks that all members call the same collectives in the same order.
void ReplayPlan::meet(std::size_t rank, int group, Operation operation, const ReplayStep& step) {
  if (collective_calls_.size() <= static_cast<std::size_t>(group))
    collective_calls_.resize(static_cast<std::size_t>(group) + 1);
  std::vector<CollectiveCall>& collective_calls = collective_calls_[static_cast<std::size_t>(group)];
  if (collective_calls.size() <= step.instance) collective_calls.resize(step.instance + 1);
  CollectiveCall& collective_call = collective_calls[step.instance];
  const ChakraNode& node = *step.node;
  if (collective_call.members++ == 0)
    collective_call = {operation, 0, static_cast<int>(rank), node.id, 1};
  else if (collective_call.operation != operation)
    throw UserError(fmt::format("{}: {}, but rank {} does {} (its node {}): collective {} of their group",
                                place_in_trace(file(rank), node), name_of(operation), collective_call.rank,
                                name_of(collective_call.operation), collective_call.node, step.instance));
  collective_call.bytes = std::max(collective_call.bytes, node.bytes);
}

void ReplayPlan::require_all_met() const {
  for (std::size_t group = 0; group < collective_calls_.size(); ++group) {
    const Communicator& communicator = groups_->communicators()[group];
    for (std::size_t k = 1; k < collective_calls_[group].size(); ++k) {
      const CollectiveCall& collective_call = collective_calls_[group][k];
      if (collective_call.members < communicator.members.size())
        throw UserError(fmt::format(
            "{}: node {}: {} of {} ranks, of which {} take part: the others' files have no collective {} of that group",
            file(static_cast<std::size_t>(collective_call.rank)), collective_call.node,
            name_of(collective_call.operation), communicator.members.size(), collective_call.members, k));
    }
  }
}

/// Checks that each pair of ranks has as many receives as sends for each tag.
void ReplayPlan::require_all_received() const {
  struct Halves {
    std::size_t sent = 0, received = 0, rank = 0;
    const ChakraNode* last = nullptr;
  };
  std::map<std::tuple<double, double, double>, Halves> messages;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const ChakraNode& node : ranks[rank].nodes) {
      const bool sends = node.type == ChakraType::send, receives = node.type == ChakraType::recv;
      if (!sends && !receives) continue;
      const auto self = static_cast<double>(rank);
      Halves& halves = messages[{sends ? self : node.source, sends ? node.destination : self, node.tag}];
      ++(sends ? halves.sent : halves.received);
      const bool more = sends ? halves.sent > halves.received : halves.received > halves.sent;
      if (!halves.last || more) {
        halves.last = &node;
        halves.rank = rank;
      }
    }
  for (const auto& [ends, halves] : messages)
    if (halves.sent != halves.received)
      throw UserError(fmt::format("{}: of messages from rank {} to rank {} with tag {}, {} are sent and {} received",
                                  place_in_trace(file(halves.rank), *halves.last), std::get<0>(ends), std::get<1>(ends),
                                  std::get<2>(ends), halves.sent, halves.received));
}

}  // namespace trainyard

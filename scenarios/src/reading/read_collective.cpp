#include "scenarios/src/reading/read_collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "strategies/collectives/collective.hpp"
#include "strategies/collectives/library_model.hpp"
#include "strategies/collectives/node_rings.hpp"

namespace trainyard {
namespace {

/// Returns the path of a key, with which an error about it begins; "" for the flags of a verb, whose place says it.
std::string path_prefix(const std::string& what, const std::string& key = "") {
  if (what.starts_with("trainyard ")) return "";
  return what + (key.empty() ? "" : ".") + key + ": ";
}

std::vector<int> read_torus(Fields& fields, const std::string& what, int ranks) {
  const Node& node = *fields.child("torus");
  constexpr std::size_t most = 6;
  if (node.kind != Node::Kind::list || node.items.empty() || node.items.size() > most)
    fail(node.place,
         fmt::format("{}one to {} lengths expected, as in [4, 8] or [4, 4, 4]", path_prefix(what, "torus"), most));
  std::vector<int> torus;
  double places = 1;  // an integer of any size
  for (const Node& item : node.items) {
    Node map;
    map.kind = Node::Kind::map;
    map.place = item.place;
    map.fields.emplace_back("size", item);
    torus.push_back(Fields(map, what + ".torus").integer<int>("size", 1));
    places *= torus.back();
  }
  if (places != ranks)
    fail(node.place, fmt::format("{}{} is not {} ranks", path_prefix(what, "torus"), fmt::join(torus, " x "), ranks));
  return torus;
}

/// Throws UserError for an algorithm that cannot run with these settings in this use. Whether switches of the machine
/// can add is checked later, when the machine is built.
void check(const CollectiveChoice& choice, const std::string& what, int ranks, CollectiveUse use) {
  const Collective& collective = *choice.algorithm;
  const GroupPlace place{0, std::max(ranks, 1), &choice.settings};
  if (use == CollectiveUse::in_a_step && collective.for_teaching)
    fail(choice.place, fmt::format("{}{} is only for teaching (trainyard teach, bench), not for a plan",
                                   path_prefix(what), collective.name));
  CollectiveSettings single = choice.settings;
  single.channels = 1;
  if (choice.settings.channels > 1 && collective.channels_of(place) == collective.channels_of({0, place.size, &single}))
    fail(choice.place, fmt::format("{}{} runs on its own channels; channels: {} would change nothing",
                                   path_prefix(what), collective.name, choice.settings.channels));
  if (collective.switches == SwitchKind::none || choice.settings.fidelity == Fidelity::modelled) {
    require_fits(collective, place, choice.place);
    return;
  }
  if (use == CollectiveUse::in_a_step)
    fail(choice.place, fmt::format("{}{} needs switches that add, which work only in a collective that runs alone "
                                   "(trainyard bench); as part of a step: {{fidelity: modelled}}",
                                   path_prefix(what), collective.name));
}

/// Returns the number of operations of the first two members for 1 MiB of data.
std::size_t first_operations(const Collective& collective, int ranks, const CollectiveSettings& settings) {
  std::size_t count = 0;
  for (int member = 0; member < std::min(ranks, 2); ++member)
    visit_ops(collective, {member, ranks, &settings}, Bytes{1 << 20}, [&count](const Op&) {
      ++count;
      return true;
    });
  return count;
}

/// Throws UserError if the algorithm reads neither the stated size of pieces nor the stated torus.
void require_effect(Fields& fields, const CollectiveChoice& choice, const std::string& what, int ranks) {
  const Collective& collective = *choice.algorithm;
  const auto refuse = [&](const char* key, const char* others) {
    fail(fields.place_of(key),
         fmt::format("{}it would change nothing in {}; it is for {}", path_prefix(what, key), collective.name, others));
  };
  const auto changed = [&choice](auto change) {
    CollectiveSettings settings = choice.settings;
    change(settings);
    return settings;
  };
  constexpr const char* pieces_words = "algorithms that pass data on in pieces, such as double-binary-tree";
  // Algorithms whose switches add have no pieces and no torus, and they cannot run before the switches are known.
  if (collective.switches != SwitchKind::none) {
    if (fields.has("chunk")) refuse("chunk", pieces_words);
    if (fields.has("torus")) refuse("torus", "algorithms of a torus, such as torus-2d");
    return;
  }
  if (fields.has("chunk") && ranks > 1) {
    const auto with_pieces = [&](int pieces) {
      return first_operations(collective, ranks, changed([pieces](CollectiveSettings& s) {
                                s.chunk = Bytes{1 << 20} / static_cast<double>(pieces);
                              }));
    };
    if (with_pieces(1) == with_pieces(4)) refuse("chunk", pieces_words);
  }
  int rows = 2;
  while (rows < ranks && ranks % rows != 0) ++rows;
  if (!fields.has("torus") || rows >= ranks) return;
  const auto on_torus = [&](std::vector<int> lengths) {
    return changed([&lengths](CollectiveSettings& s) { s.torus = std::move(lengths); });
  };
  const CollectiveSettings grid = on_torus({rows, ranks / rows}), line = on_torus({1, ranks});
  if (peers_of(collective, {0, ranks, &grid}) == peers_of(collective, {0, ranks, &line}) &&
      first_operations(collective, ranks, grid) == first_operations(collective, ranks, line))
    refuse("torus", "algorithms of a torus, such as torus-2d");
}

}  // namespace

const Collective& usual_collective(Operation operation, const ClusterSpec& cluster) {
  const bool has_torus = operation == Operation::all_reduce || operation == Operation::all_gather ||
                         operation == Operation::reduce_scatter;
  return cluster.joins_chips() && has_torus ? collectives(operation).find("torus", {}) : default_collective(operation);
}

void place_on(CollectiveSettings& settings, const ClusterSpec& cluster, int ranks) {
  settings.meshed = std::ranges::all_of(cluster.types(), [](const NodeType* type) { return has_full_mesh(*type); });
  if (cluster.joins_chips()) {
    settings.chips = cluster.fabric->chip_places(cluster);
    std::vector<int> members(static_cast<std::size_t>(std::min(ranks, cluster.gpus())));
    std::iota(members.begin(), members.end(), 0);
    settings.place_on_chips(members);
  }
  if (!cluster.others.empty()) {
    std::vector<int> nodes;
    for (int rank = 0; rank < std::min(ranks, cluster.gpus()); ++rank) nodes.push_back(cluster.node_of_gpu(rank));
    settings.place(nodes);
    return;
  }
  settings.per_node = cluster.nodes > 1 ? cluster.node.gpus : 0;
  if (cluster.node.nvlink_mesh.empty()) return;
  settings.node_rings = std::make_shared<NodeRings>(cluster.node);
  if (ranks > cluster.node.gpus) return;
  std::vector<int> gpus(static_cast<std::size_t>(ranks));
  std::iota(gpus.begin(), gpus.end(), 0);
  settings.rings = settings.node_rings->through(gpus);
}

void take_library_model(CollectiveChoice& choice, const LibraryModel& library) {
  choice.settings.fidelity = Fidelity::modelled;
  choice.settings.model = library.model;
  choice.scaled = library.scaled;
  choice.measured_gpus = library.measured_gpus;
  choice.errors = library.errors;
  choice.sources = library.sources;
}

CollectiveChoice read_collective(const Node* node, const std::string& what, Operation operation,
                                 const ClusterSpec& cluster, int ranks, CollectiveUse use, int root,
                                 const LibraryModel* library, const NcclChoice& nccl) {
  CollectiveChoice choice;
  choice.algorithm = &usual_collective(operation, cluster);
  choice.settings.root = root;
  place_on(choice.settings, cluster, ranks);
  if (!node) return choice;
  choice.place = node->place;
  std::string name = choice.algorithm->name;
  std::optional<Fields> stated;
  if (node->kind == Node::Kind::scalar) {
    name = node->scalar;
  } else {
    Fields& fields = stated.emplace(*node, what);
    // A name becomes `base` if --set adds a key beside it: all_reduce: ring, --set ….all_reduce.channels=8.
    fields.read({"base",
                 "Same as `algorithm`: --set writes it here if all_reduce was a name, for example ring. "
                 "Default: NCCL's choice if fidelity is modelled, else ring."},
                name);
    fields.read({"algorithm",
                 "Algorithm of the collective, for example ring (trainyard list collectives); auto: the fastest "
                 "in a simulation of each. Default: NCCL's choice if fidelity is modelled, else ring."},
                name);
    if (fields.has("algorithm")) choice.place = fields.place_of("algorithm");
    choice.settings.channels =
        fields.integer<int>({"channels",
                             "Number of rings or trees that share the data and run at the same time, for example 2. "
                             "Default: NCCL's choice if fidelity is modelled, else 1."},
                            1, 1);
    if (2 * choice.settings.channels + 3 > kMaxStreams)
      fields.refuse("channels", fmt::format("{}; at most {}", choice.settings.channels, (kMaxStreams - 3) / 2));
    fields.read({"chunk",
                 "Size of the pieces that chains and trees pass on, for example 1 MiB. "
                 "Default: NCCL's choice if fidelity is modelled, else 512 KiB."},
                choice.settings.chunk);
    if (fields.has({"torus",
                    "Lengths of the torus of ranks for the torus algorithms, for example [4, 8]; ranks follow each "
                    "other along the last one. Default: as square as the number of ranks allows (torus-2d), or the box "
                    "of chips on which the ranks are (torus)."}))
      choice.settings.torus = read_torus(fields, what, ranks);
    choice.settings.fidelity = parse_fidelity(
        fields.choice({"fidelity",
                       "How this collective is simulated: messages, flows or modelled, as for plan.collectives. "
                       "Default: messages if another key of the collective is written, else as plan.collectives says."},
                      {"messages", "flows", "modelled"}, "messages"));
    fields.finish();
    if (choice.settings.fidelity == Fidelity::modelled) {
      if (fields.has("algorithm") || choice.settings.channels > 1)
        fail(choice.place,
             fmt::format("{}with fidelity: modelled, NCCL chooses for itself: leave out algorithm and channels",
                         path_prefix(what)));
      name = default_collective(operation).name;
      take_library_model(choice, library ? *library : library_model(cluster, nccl));
    }
  }
  choice.algorithm = name == "auto" ? nullptr : &collectives(operation).find(name, choice.place);
  if (choice.algorithm) check(choice, what, ranks, use);
  if (choice.algorithm && stated && choice.settings.fidelity != Fidelity::modelled)
    require_effect(*stated, choice, what, ranks);
  return choice;
}

}  // namespace trainyard

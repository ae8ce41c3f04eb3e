#include "strategies/collectives/collective_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/reading/document.hpp"
#include "strategies/collectives/node_rings.hpp"
#include "topologies/fabric.hpp"

namespace trainyard {
namespace {

constexpr const char* kOperationNames[kOperations] = {"all-reduce",   "all-gather", "reduce-scatter", "all-to-all",
                                                      "all-to-all-v", "broadcast",  "reduce",         "scatter",
                                                      "gather",       "send-recv",  "barrier"};
constexpr const char* kFidelityNames[] = {"messages", "flows", "modelled"};
constexpr const char* kReductionNames[] = {"sum", "average", "maximum", "product"};

std::string plain_word(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

}  // namespace

const char* name_of(Operation operation) { return kOperationNames[static_cast<std::size_t>(operation)]; }

Operation parse_operation(const std::string& text) {
  const std::string wanted = plain_word(text);
  if (wanted == "alltoall") return Operation::all_to_all;  // as NCCL writes it
  if (wanted == "sendrecv") return Operation::send_recv;
  const std::vector<std::string> names(std::begin(kOperationNames), std::end(kOperationNames));
  return static_cast<Operation>(
      place_of_word("collective operation", place_among(wanted, names) < names.size() ? wanted : text, names));
}

bool has_root(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::reduce || operation == Operation::scatter ||
         operation == Operation::gather;
}
bool has_rank_blocks(Operation o) {
  return gives_block(o) || takes_block(o) || o == Operation::all_to_all || o == Operation::all_to_all_v;
}
bool gives_block(Operation o) { return o == Operation::all_gather || o == Operation::gather; }
bool takes_block(Operation o) { return o == Operation::reduce_scatter || o == Operation::scatter; }
bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter || operation == Operation::reduce;
}

double bus_factor(Operation operation, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (operation == Operation::all_reduce) return 2 * share;
  if (operation == Operation::barrier) return 0;
  return has_rank_blocks(operation) ? share : 1;
}

const char* name_of(Reduction reduction) { return kReductionNames[static_cast<std::size_t>(reduction)]; }

Reduction parse_reduction(const std::string& text) {
  // Accepts the short words of NCCL and MPI too.
  const std::string word = text == "avg" ? "average" : text == "max" ? "maximum" : text == "prod" ? "product" : text;
  return static_cast<Reduction>(
      place_of_word("reduction", word, {std::begin(kReductionNames), std::end(kReductionNames)}));
}

const char* name_of(Fidelity fidelity) { return kFidelityNames[static_cast<std::size_t>(fidelity)]; }

Fidelity parse_fidelity(const std::string& text) {
  return static_cast<Fidelity>(place_of_word("fidelity", text, {std::begin(kFidelityNames), std::end(kFidelityNames)}));
}

const CollectiveSettings& GroupPlace::plain() {
  static const CollectiveSettings settings;
  return settings;
}

void CollectiveSettings::place(const std::vector<int>& node_of_rank, const std::vector<int>& gpus) {
  std::vector<int> runs;  // lengths of the runs of consecutive ranks on one node
  for (std::size_t i = 0; i < node_of_rank.size(); ++i)
    if (i > 0 && node_of_rank[i] == node_of_rank[i - 1])
      ++runs.back();
    else
      runs.push_back(1);
  const bool even = std::equal(runs.begin() + 1, runs.end(), runs.begin());
  per_node = runs.size() == 1 ? 0 : std::reduce(runs.begin(), runs.end(), 0, std::gcd<int, int>);
  node_sizes = even ? std::vector<int>{} : std::move(runs);
  if (model) model = model->model_for(node_of_rank);
  if (per_node != 0 || (!rings.empty() && rings.front().order.member.size() != node_of_rank.size())) rings.clear();
  if (per_node != 0 || !node_rings) return;
  std::vector<int> first_gpus(gpus.empty() ? node_of_rank.size() : 0);
  std::iota(first_gpus.begin(), first_gpus.end(), 0);
  rings = node_rings->through(gpus.empty() ? first_gpus : gpus);
}

void CollectiveSettings::place_on_chips(const std::vector<int>& members) {
  box.clear();
  slices = 1;
  if (!chips) return;
  // Members that fill a box are numbered along its dimensions: the first is the fastest, and the slice is the last.
  std::vector<std::vector<int>> coordinates(chips->dims.size() + 1);
  for (const int member : members) {
    std::size_t d = 0;
    for (const int coordinate : chips->coordinates(member)) coordinates[d++].push_back(coordinate);
  }
  std::vector<int> lengths;
  std::vector<std::size_t> expected(members.size(), 0);
  std::size_t stride = 1;
  for (const std::vector<int>& along : coordinates) {
    std::vector<int> values = along;
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (std::size_t i = 0; i < members.size(); ++i)
      expected[i] += stride * static_cast<std::size_t>(std::ranges::lower_bound(values, along[i]) - values.begin());
    stride *= values.size();
    lengths.push_back(static_cast<int>(values.size()));
  }
  for (std::size_t i = 0; i < members.size(); ++i)
    if (expected[i] != i) return;
  if (stride != members.size()) return;
  slices = lengths.back();
  lengths.pop_back();
  std::erase(lengths, 1);
  box = std::move(lengths);
  if (box.empty()) slices = 1;
}

NodeSpread CollectiveSettings::spread(int ranks) const {
  if (!node_sizes.empty()) return {ranks, static_cast<int>(node_sizes.size()), *std::ranges::min_element(node_sizes)};
  const int node_ranks = ranks_per_node(ranks), remainder = ranks % node_ranks;
  return {ranks, (ranks + node_ranks - 1) / node_ranks, remainder > 0 ? remainder : node_ranks};
}

std::string LibraryErrors::in_words(bool in_nodes, bool between_nodes) const {
  if (!in_nodes || inside.empty()) return between_nodes ? between : "";
  return between_nodes && !between.empty() ? fmt::format("in nodes, {}; {}", inside, between) : inside;
}

}  // namespace trainyard

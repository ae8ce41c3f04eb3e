#include "scenarios/src/traces/trace_files.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "models/reading/document.hpp"
#include "sim/error.hpp"
#include "sim/index.hpp"

namespace trainyard {
namespace {

/// Lists the ranks that have a file with this prefix, in order.
std::vector<int> ranks_of_files(const std::filesystem::path& prefix) {
  const std::filesystem::path folder = prefix.has_parent_path() ? prefix.parent_path() : ".";
  const std::string name = prefix.filename().string() + ".", end = ".et";
  std::vector<int> ranks;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    if (file.size() <= name.size() + end.size() || !file.starts_with(name) || !file.ends_with(end)) continue;
    const std::string number = file.substr(name.size(), file.size() - name.size() - end.size());
    if (number.size() < 8 && number.find_first_not_of("0123456789") == std::string::npos)
      ranks.push_back(std::stoi(number));
  }
  std::ranges::sort(ranks);
  return ranks;
}

/// Writes the ids of a cycle of dependencies, in the order of execution: "4 > 7 > 4".
std::string circle_among(const std::vector<ChakraNode>& nodes, const std::vector<std::vector<std::uint32_t>>& deps,
                         const std::vector<std::uint32_t>& missing) {
  std::uint32_t node = 0;
  while (missing[node] == 0) ++node;
  std::vector<std::uint32_t> cycle;
  std::vector<bool> seen(nodes.size());
  while (!seen[node]) {
    seen[node] = true;
    cycle.push_back(node);
    node = *std::ranges::find_if(deps[node], [&](std::uint32_t d) { return missing[d] > 0; });
  }
  cycle.erase(cycle.begin(), std::ranges::find(cycle, node));
  std::ranges::reverse(cycle);
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(cycle.size(), most); ++i) text += fmt::format("{} > ", nodes[cycle[i]].id);
  if (cycle.size() > most) text += "… > ";
  return text + std::to_string(nodes[cycle.front()].id);
}

std::vector<int> ranks_in(const Node& list, const std::string& what) {
  if (list.kind != Node::Kind::list)
    fail(list.place, fmt::format("{}: a list of ranks expected, as [0, 1, 2, 3]", what));
  std::vector<int> ranks;
  for (const Node& item : list.items) try {
      ranks.push_back(static_cast<int>(std::clamp<std::int64_t>(parse_integer(item.scalar), -1, 1 << 30)));
    } catch (const UserError&) {
      fail(item.place, fmt::format("{}: ranks expected, as [0, 1, 2, 3]; found \"{}\"", what, item.scalar));
    }
  return ranks;
}

}  // namespace

std::string trace_file(const std::filesystem::path& prefix, std::size_t rank) {
  return fmt::format("{}.{}.et", prefix.string(), rank);
}

std::string place_in_trace(const std::string& file, const ChakraNode& node) {
  return fmt::format("{}: node {} \"{}\"", file, node.id, node.name);
}

std::vector<std::vector<ChakraNode>> read_trace(const std::filesystem::path& prefix, int gpus) {
  const std::vector<int> present = ranks_of_files(prefix);
  if (present.empty())
    throw UserError(
        fmt::format("{}: no such file; the prefix of a trace NAME.0.et, NAME.1.et, … expected", trace_file(prefix, 0)));
  std::vector<int> missing;
  for (int rank = 0; rank < present.back() && missing.size() < 8; ++rank)
    if (!std::ranges::binary_search(present, rank)) missing.push_back(rank);
  if (!missing.empty())
    throw UserError(fmt::format("{}: no such file; there are files of ranks up to {}, but none of rank{} {}",
                                trace_file(prefix, static_cast<std::size_t>(missing.front())), present.back(),
                                missing.size() > 1 ? "s" : "", fmt::join(missing, ", ")));
  if (static_cast<int>(present.size()) > gpus)
    throw UserError(fmt::format("{}: a trace of {} ranks, but the cluster has {}; --nodes adds nodes", prefix.string(),
                                present.size(), counted_noun(gpus, "GPU")));
  std::vector<std::vector<ChakraNode>> ranks;
  for (std::size_t rank = 0; rank < present.size(); ++rank) ranks.push_back(read_chakra(trace_file(prefix, rank)));
  return ranks;
}

std::vector<ReplayStep> in_order(const std::vector<ChakraNode>& nodes, const std::string& file) {
  std::vector<ReplayStep> steps;
  steps.reserve(nodes.size());
  std::unordered_map<std::uint64_t, std::uint32_t> number_of_id;
  for (std::uint32_t i = 0; i < nodes.size(); ++i)
    if (!number_of_id.try_emplace(nodes[i].id, i).second)
      throw UserError(fmt::format("{}: two nodes are called {} (bytes {} and {})", file, nodes[i].id,
                                  nodes[number_of_id[nodes[i].id]].offset, nodes[i].offset));
  std::vector<std::vector<std::uint32_t>> deps(nodes.size()), followers(nodes.size());
  std::vector<std::uint32_t> missing(nodes.size());
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    for (const std::uint64_t id : nodes[i].deps) {
      const auto found = number_of_id.find(id);
      if (found == number_of_id.end())
        throw UserError(fmt::format("{} (byte {}) depends on node {}, which the file does not have",
                                    place_in_trace(file, nodes[i]), nodes[i].offset, id));
      deps[i].push_back(found->second);
    }
    std::ranges::sort(deps[i]);
    deps[i].erase(std::unique(deps[i].begin(), deps[i].end()), deps[i].end());
    for (const std::uint32_t d : deps[i]) followers[d].push_back(i);
    missing[i] = static_cast<std::uint32_t>(deps[i].size());
  }
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t i = 0; i < nodes.size(); ++i)
    if (missing[i] == 0) ready.push(i);
  std::vector<std::uint32_t> position(nodes.size());
  while (!ready.empty()) {
    const std::uint32_t i = ready.top();
    ready.pop();
    position[i] = static_cast<std::uint32_t>(steps.size());
    ReplayStep& step = steps.emplace_back();
    step.node = &nodes[i];
    for (const std::uint32_t d : deps[i]) step.deps.push_back(position[d]);
    for (const std::uint32_t f : followers[i])
      if (--missing[f] == 0) ready.push(f);
  }
  if (steps.size() < nodes.size())
    throw UserError(
        fmt::format("{}: nodes wait for each other in a circle: {}", file, circle_among(nodes, deps, missing)));
  return steps;
}

CommGroups::CommGroups(int ranks, std::vector<int> dims) : ranks_(ranks), dims_(std::move(dims)) {
  if (dims_.empty()) return;
  const double product = std::accumulate(dims_.begin(), dims_.end(), 1.0, std::multiplies<>());
  if (product != ranks)
    throw UserError(fmt::format("--dims {}: {} ranks, but the trace has {}", fmt::join(dims_, ","), product, ranks));
}

void CommGroups::add(const std::string& name, std::vector<int> members, const std::string& where) {
  for (const int member : members)
    if (member < 0 || member >= ranks_)
      throw UserError(
          fmt::format("{}: group {} has rank {}, and the trace ranks 0 to {}", where, name, member, ranks_ - 1));
  std::vector<int> sorted = members;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw UserError(fmt::format("{}: group {} has rank {} twice", where, name, *twice));
  const auto [entry, fresh] = named_.try_emplace(name, members);
  if (!fresh && entry->second != members)
    throw UserError(fmt::format("{}: group {} has other ranks here than before", where, name));
}

void CommGroups::read(const std::filesystem::path& file) {
  const Node groups = read_document(file);
  if (groups.kind != Node::Kind::map)
    fail(groups.place, "groups of ranks by name expected, as {\"1\": [0, 1], \"2\": [2, 3]}");
  for (const auto& [name, list] : groups.fields) add(name, ranks_in(list, "group " + name), list.place.text());
}

void CommGroups::read(const ChakraNode& metadata, const std::string& file) {
  const std::string& text = metadata.values;
  const std::size_t begin = text.find("[{"), end = text.rfind("}]");
  if (begin == std::string::npos || end == std::string::npos || text.find("\"pg_name\"") == std::string::npos) return;
  const std::string where = fmt::format("{}: node {}", file, metadata.id);
  for (const Node& group : parse_document(text.substr(begin, end + 2 - begin), where).items) {
    const Node* name = group.find("pg_name");
    const Node* ranks = group.find("ranks");
    if (!name || !ranks) continue;
    std::vector<int> members = ranks_in(*ranks, "group " + name->scalar);
    if (members.empty()) members = consecutive_numbers(0, ranks_);
    add(name->scalar, std::move(members), where);
  }
}

std::vector<int> CommGroups::along_dims(int rank, const ChakraNode& node, const std::string& where) const {
  if (dims_.empty())
    throw UserError(
        fmt::format("{}: involved_dim leaves dimensions out; --dims says how many ranks each has, as 8,4", where));
  std::vector<int> members{0};
  for (std::size_t d = 0, stride = 1; d < dims_.size(); stride *= static_cast<std::size_t>(dims_[d]), ++d) {
    const int step = static_cast<int>(stride), own = rank / step % dims_[d];
    std::vector<int> more;
    for (int position = 0; position < dims_[d]; ++position)
      if (position == own || (d < node.dims.size() && node.dims[d]))
        for (const int member : members) more.push_back(member + position * step);
    members = std::move(more);
  }
  std::ranges::sort(members);
  return members;
}

int CommGroups::number(const std::string& name, std::vector<int> members) {
  const auto [entry, fresh] = numbers_.try_emplace({name, members}, static_cast<int>(communicators_.size()));
  if (fresh) communicators_.push_back({std::move(members)});
  return entry->second;
}

int CommGroups::communicator_of(int rank, const ChakraNode& node, const std::string& file) {
  const std::string where = fmt::format("{}: node {}", file, node.id);
  const auto named = named_.find(node.group);
  if (named != named_.end()) {
    if (std::ranges::find(named->second, rank) == named->second.end())
      throw UserError(fmt::format("{}: rank {} is not in its group {}", where, rank, node.group));
    return number(node.group, named->second);
  }
  if (std::ranges::find(node.dims, false) != node.dims.end()) return number("", along_dims(rank, node, where));
  if (!node.group.empty() && node.group != "0") {
    std::vector<std::string> names;
    for (const auto& [name, members] : named_) names.push_back(name);
    throw UserError(
        fmt::format("{}: unknown group \"{}\"{}", where, node.group,
                    names.empty() ? "; --comm-groups FILE says which ranks it has" : hint(node.group, names)));
  }
  return number("", consecutive_numbers(0, ranks_));
}

}  // namespace trainyard

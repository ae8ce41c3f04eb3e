#include "scenarios/src/traces/comm_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "models/reading/document.hpp"
#include "scenarios/src/traces/chakra.hpp"
#include "sim/index.hpp"

namespace trainyard {
namespace {

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
  if (fresh) communicators_.push_back({name, std::move(members)});
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

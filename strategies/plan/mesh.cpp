#include "strategies/plan/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"

namespace trainyard {
namespace {

int& along(Coordinates& at, Axis axis) {
  switch (axis) {
    case Axis::tensor:
      return at.tensor;
    case Axis::context:
      return at.context;
    case Axis::data:
      return at.data;
    case Axis::pipeline:
      return at.pipeline;
    case Axis::expert:
      break;
  }
  throw InternalError("experts have no coordinate of their own");
}

}  // namespace

int Mesh::size(Axis axis) const {
  switch (axis) {
    case Axis::tensor:
      return tensor;
    case Axis::context:
      return context;
    case Axis::data:
      return data;
    case Axis::pipeline:
      return pipeline;
    case Axis::expert:
      return expert;
  }
  return 1;
}

Coordinates Mesh::of(int rank) const {
  Coordinates at;
  for (const Axis axis : order) {
    along(at, axis) = rank % size(axis);
    rank /= size(axis);
  }
  return at;
}

int Mesh::rank(const Coordinates& at) const {
  Coordinates copy = at;
  int rank = 0;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) rank = rank * size(*axis) + along(copy, *axis);
  return rank;
}

std::vector<int> Mesh::group(int of_rank, Axis axis) const {
  if (axis == Axis::expert) {
    const std::vector<int> all = replicas(of_rank);
    const auto first = all.begin() + (std::find(all.begin(), all.end(), of_rank) - all.begin()) / expert * expert;
    return {first, first + expert};
  }
  Coordinates at = of(of_rank);
  std::vector<int> members;
  for (int i = 0; i < size(axis); ++i) {
    along(at, axis) = i;
    members.push_back(rank(at));
  }
  return members;
}

std::vector<int> Mesh::replicas(int of_rank) const {
  Coordinates at = of(of_rank);
  std::vector<int> members;
  for (at.data = 0; at.data < data; ++at.data)
    for (at.context = 0; at.context < context; ++at.context) members.push_back(rank(at));
  std::sort(members.begin(), members.end());  // in the order of the mesh
  return members;
}

std::vector<int> Mesh::expert_replicas(int of_rank) const {
  const std::vector<int> all = replicas(of_rank);
  std::vector<int> members;
  for (std::size_t i = static_cast<std::size_t>(expert_of(of_rank)); i < all.size();
       i += static_cast<std::size_t>(expert))
    members.push_back(all[i]);
  return members;
}

int Mesh::expert_of(int of_rank) const {
  const std::vector<int> all = replicas(of_rank);
  return static_cast<int>(std::find(all.begin(), all.end(), of_rank) - all.begin()) % expert;
}

std::string Mesh::in_words() const {
  std::vector<std::string> parts;
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::expert, Axis::data, Axis::pipeline})
    if (size(axis) > 1)
      parts.push_back(fmt::format("{} {}{}", name_of(axis), size(axis), axis == Axis::expert ? " (in data)" : ""));
  return parts.empty() ? "1 rank" : fmt::format("{}", fmt::join(parts, " x "));
}

}  // namespace trainyard

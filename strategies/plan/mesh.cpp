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
    case Axis::expert_tensor:
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
    case Axis::expert_tensor:
      return expert_tensor > 0 ? expert_tensor : tensor;
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

/// Its number among the ranks of its pipeline stage, in the order of the mesh.
int Mesh::in_stage(int of_rank) const {
  Coordinates at = of(of_rank);
  int index = 0;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis)
    if (*axis != Axis::pipeline) index = index * size(*axis) + along(at, *axis);
  return index;
}

int Mesh::of_stage(int stage, int index) const {
  Coordinates at;
  at.pipeline = stage;
  for (const Axis axis : order) {
    if (axis == Axis::pipeline) continue;
    along(at, axis) = index % size(axis);
    index /= size(axis);
  }
  return rank(at);
}

/// Of the rank's stage, by their numbers in it.
std::vector<int> Mesh::folded_group(int of_rank, int first, int stride, int count) const {
  const int stage = of(of_rank).pipeline;
  std::vector<int> members;
  for (int i = 0; i < count; ++i) members.push_back(of_stage(stage, first + i * stride));
  return members;
}

std::vector<int> Mesh::group(int of_rank, Axis axis) const {
  if (expert_tensor > 0 && (axis == Axis::expert || axis == Axis::expert_tensor)) {
    const int at = in_stage(of_rank), block = expert_tensor * expert;
    if (axis == Axis::expert)
      return folded_group(of_rank, at / block * block + at % expert_tensor, expert_tensor, expert);
    return folded_group(of_rank, at / expert_tensor * expert_tensor, 1, expert_tensor);
  }
  if (axis == Axis::expert_tensor) axis = Axis::tensor;
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

std::vector<int> Mesh::stage(int of_rank) const { return folded_group(of_rank, 0, 1, tensor * context * data); }

std::vector<int> Mesh::replicas(int of_rank) const {
  Coordinates at = of(of_rank);
  std::vector<int> members;
  for (at.data = 0; at.data < data; ++at.data)
    for (at.context = 0; at.context < context; ++at.context) members.push_back(rank(at));
  std::sort(members.begin(), members.end());  // in the order of the mesh
  return members;
}

std::vector<int> Mesh::expert_replicas(int of_rank) const {
  if (expert_tensor > 0) {
    const int block = expert_tensor * expert;
    return folded_group(of_rank, in_stage(of_rank) % block, block, tensor * context * data / block);
  }
  const std::vector<int> all = replicas(of_rank);
  std::vector<int> members;
  for (std::size_t i = static_cast<std::size_t>(expert_of(of_rank)); i < all.size();
       i += static_cast<std::size_t>(expert))
    members.push_back(all[i]);
  return members;
}

int Mesh::expert_of(int of_rank) const {
  if (expert_tensor > 0) return in_stage(of_rank) / expert_tensor % expert;
  if (expert == 1) return 0;
  const std::vector<int> all = replicas(of_rank);
  return static_cast<int>(std::find(all.begin(), all.end(), of_rank) - all.begin()) % expert;
}

int Mesh::expert_tensor_of(int of_rank) const {
  return expert_tensor > 0 ? in_stage(of_rank) % expert_tensor : of(of_rank).tensor;
}

std::string Mesh::in_words() const {
  std::vector<std::string> parts;
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::expert, Axis::data, Axis::pipeline}) {
    if (axis == Axis::expert && expert_tensor > 0)
      parts.push_back(fmt::format("expert {} x expert-tensor {} (in tensor, context and data)", expert, expert_tensor));
    else if (size(axis) > 1)
      parts.push_back(fmt::format("{} {}{}", name_of(axis), size(axis), axis == Axis::expert ? " (in data)" : ""));
  }
  return parts.empty() ? "1 rank" : fmt::format("{}", fmt::join(parts, " x "));
}

}  // namespace trainyard

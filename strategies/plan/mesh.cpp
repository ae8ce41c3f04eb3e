#include "strategies/plan/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"

namespace trainyard {
namespace {

int& coordinate(Coordinates& coordinates, Axis axis) {
  if (axis == Axis::tensor) return coordinates.tensor;
  if (axis == Axis::context) return coordinates.context;
  if (axis == Axis::data) return coordinates.data;
  if (axis == Axis::pipeline) return coordinates.pipeline;
  throw InternalError(std::string(name_of(axis)) + " ranks have no coordinate of their own");
}

}  // namespace

int Mesh::ranks() const {
  if (widths.empty()) return tensor * context * data * pipeline;
  int all = 0;
  for (int stage = 0; stage < pipeline; ++stage) all += stage_ranks(stage);
  return all;
}

int Mesh::widest(Axis axis) const {
  int most = size(axis);
  for (int stage = 1; stage < static_cast<int>(widths.size()); ++stage) most = std::max(most, size(axis, stage));
  return most;
}

int Mesh::size(Axis axis, int stage) const {
  switch (axis) {
    case Axis::tensor:
      return widths.empty() ? tensor : widths[stage].tensor;
    case Axis::context:
      return context;
    case Axis::data:
      return widths.empty() ? data : widths[stage].data;
    case Axis::pipeline:
      return pipeline;
    case Axis::expert:
      return expert;
    case Axis::expert_tensor:
      return expert_tensor > 0 ? expert_tensor : size(Axis::tensor, stage);
    case Axis::ulysses:
      return ulysses_ranks();
    case Axis::ring:
      return context / ulysses_ranks();
  }
  return 1;
}

Coordinates Mesh::coordinates(int rank) const {
  Coordinates coordinates;
  for (const StageWidth& width : widths) {
    const int in_stage = rank - width.first;
    if (in_stage >= 0 && in_stage < width.tensor * width.data)
      return {in_stage % width.tensor, 0, in_stage / width.tensor, coordinates.pipeline};
    ++coordinates.pipeline;
  }
  for (const Axis axis : order) {
    coordinate(coordinates, axis) = rank % size(axis);
    rank /= size(axis);
  }
  return coordinates;
}

int Mesh::rank(const Coordinates& coordinates) const {
  if (!widths.empty()) {
    const StageWidth& width = widths[coordinates.pipeline];
    return width.first + coordinates.data * width.tensor + coordinates.tensor;
  }
  Coordinates copy = coordinates;
  int rank = 0;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) rank = rank * size(*axis) + coordinate(copy, *axis);
  return rank;
}

/// Returns the rank's number within its pipeline stage, in the order of the mesh.
int Mesh::index_in_stage(int of_rank) const {
  Coordinates coordinates = this->coordinates(of_rank);
  int index = 0;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis)
    if (*axis != Axis::pipeline) index = index * size(*axis, coordinates.pipeline) + coordinate(coordinates, *axis);
  return index;
}

int Mesh::rank_of_stage(int stage, int index) const {
  Coordinates coordinates;
  coordinates.pipeline = stage;
  for (const Axis axis : order) {
    if (axis == Axis::pipeline) continue;
    coordinate(coordinates, axis) = index % size(axis, stage);
    index /= size(axis, stage);
  }
  return rank(coordinates);
}

/// Returns ranks of the rank's stage, given by their numbers within the stage.
std::vector<int> Mesh::folded_group(int of_rank, int first, int stride, int count) const {
  const int stage = coordinates(of_rank).pipeline;
  std::vector<int> members;
  for (int i = 0; i < count; ++i) members.push_back(rank_of_stage(stage, first + i * stride));
  return members;
}

std::vector<int> Mesh::group(int of_rank, Axis axis) const {
  if (expert_tensor > 0 && (axis == Axis::expert || axis == Axis::expert_tensor)) {
    const int index = index_in_stage(of_rank), block = expert_tensor * expert;
    if (axis == Axis::expert)
      return folded_group(of_rank, index / block * block + index % expert_tensor, expert_tensor, expert);
    return folded_group(of_rank, index / expert_tensor * expert_tensor, 1, expert_tensor);
  }
  if (axis == Axis::expert_tensor) axis = Axis::tensor;
  if (axis == Axis::expert) {
    const std::vector<int> all = replicas_in_stage(of_rank);
    const auto first = all.begin() + (std::ranges::find(all, of_rank) - all.begin()) / expert * expert;
    return {first, first + expert};
  }
  Coordinates coordinates = this->coordinates(of_rank);
  int first = 0, stride = 1;
  const int count = size(axis, coordinates.pipeline);
  if (axis == Axis::ulysses) first = coordinates.context / count * count;
  if (axis == Axis::ring) {
    stride = ulysses_ranks();
    first = coordinates.context % stride;
  }
  if (axis == Axis::ulysses || axis == Axis::ring) axis = Axis::context;
  std::vector<int> members;
  for (int i = 0; i < count; ++i) {
    coordinate(coordinates, axis) = first + i * stride;
    members.push_back(rank(coordinates));
  }
  return members;
}

std::vector<int> Mesh::stage(int of_rank) const {
  return folded_group(of_rank, 0, 1, stage_ranks(coordinates(of_rank).pipeline));
}

/// Returns a group of a rank within its stage, and that of the rank with the same place in the other copy.
std::vector<int> Mesh::over_copies(int of_rank, Group group_in_stage) const {
  std::vector<int> members = (this->*group_in_stage)(of_rank);
  if (copies == 1) return members;
  Coordinates other = coordinates(of_rank);
  other.pipeline = opposite_stage(other.pipeline);
  const std::vector<int> others = (this->*group_in_stage)(rank(other));
  members.insert(members.end(), others.begin(), others.end());
  std::ranges::sort(members);
  return members;
}

std::vector<int> Mesh::replicas(int of_rank) const { return over_copies(of_rank, &Mesh::replicas_in_stage); }
std::vector<int> Mesh::expert_replicas(int of_rank) const {
  return over_copies(of_rank, &Mesh::expert_replicas_in_stage);
}

std::vector<int> Mesh::replicas_in_stage(int of_rank) const {
  Coordinates coordinates = this->coordinates(of_rank);
  std::vector<int> members;
  for (coordinates.data = 0; coordinates.data < size(Axis::data, coordinates.pipeline); ++coordinates.data)
    for (coordinates.context = 0; coordinates.context < context; ++coordinates.context)
      members.push_back(rank(coordinates));
  std::ranges::sort(members);  // in the order of the mesh
  return members;
}

std::vector<int> Mesh::expert_replicas_in_stage(int of_rank) const {
  if (expert_tensor > 0) {
    const int block = expert_tensor * expert;
    return folded_group(of_rank, index_in_stage(of_rank) % block, block, tensor * context * data / block);
  }
  const std::vector<int> all = replicas_in_stage(of_rank);
  std::vector<int> members;
  for (std::size_t i = static_cast<std::size_t>(expert_of(of_rank)); i < all.size();
       i += static_cast<std::size_t>(expert))
    members.push_back(all[i]);
  return members;
}

int Mesh::expert_of(int of_rank) const {
  if (expert_tensor > 0) return index_in_stage(of_rank) / expert_tensor % expert;
  if (expert == 1) return 0;
  const std::vector<int> all = replicas_in_stage(of_rank);
  return static_cast<int>(std::ranges::find(all, of_rank) - all.begin()) % expert;
}

int Mesh::expert_tensor_of(int of_rank) const {
  return expert_tensor > 0 ? index_in_stage(of_rank) % expert_tensor : coordinates(of_rank).tensor;
}

std::string Mesh::in_words(const std::string& exchange) const {
  std::vector<std::string> parts;
  for (const StageWidth& width : widths) parts.push_back(fmt::format("{} x {}", width.tensor, width.data));
  if (!widths.empty()) return fmt::format("pipeline {} (tensor x data: {})", pipeline, fmt::join(parts, ", "));
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline}) {
    if (axis == Axis::context && splits_context())
      parts.push_back(fmt::format("context {} (ulysses {} x ring {})", context, ulysses, size(Axis::ring)));
    else if (size(axis) > 1)
      parts.push_back(fmt::format("{} {}{}", name_of(axis), size(axis),
                                  axis == Axis::context && !exchange.empty() ? " (" + exchange + ")" : ""));
  }
  std::string text = parts.empty() ? "1 rank" : fmt::format("{}", fmt::join(parts, " x "));
  // Expert ranks are ranks of the other axes, so they are no factor of the product.
  if (expert > 1 || expert_tensor > 0) text += fmt::format(", expert parallel {}", expert);
  if (expert_tensor > 0) text += fmt::format(", expert tensor parallel {}", expert_tensor);
  return text;
}

}  // namespace trainyard

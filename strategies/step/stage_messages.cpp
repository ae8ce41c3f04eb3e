#include "strategies/step/stage_messages.hpp"

#include <algorithm>
#include <optional>

namespace trainyard {
namespace {

/// Part `index` of `count` equal parts.
struct EqualPart {
  int index = 0, count = 1;
};

/// Returns the intersection of two parts, as chunks of the first. No value: they do not intersect.
std::optional<BufferRef> common(const EqualPart& a, const EqualPart& b) {
  const int first = std::max(a.index * b.count, b.index * a.count),
            last = std::min((a.index + 1) * b.count, (b.index + 1) * a.count);
  if (first >= last) return std::nullopt;
  const auto number = [](int n) { return static_cast<std::uint16_t>(n); };
  return BufferRef{0, number(first - a.index * b.count), number(b.count), number(last - first)};
}

double share_of(const BufferRef& part) { return static_cast<double>(part.count) / part.chunks; }

/// Calls add(rank, its coordinates) for all ranks of a stage.
template <class Add>
void for_each_rank(const Mesh& mesh, int stage, Add add) {
  Coordinates place;
  place.pipeline = stage;
  for (place.data = 0; place.data < mesh.size(Axis::data, stage); ++place.data)
    for (place.tensor = 0; place.tensor < mesh.size(Axis::tensor, stage); ++place.tensor) add(mesh.rank(place), place);
}

/// True if each tensor rank of a stage has a part of its activations.
bool in_parts(const TrainingPlan& plan, int stage) {
  const int last = plan.stages[stage].chunks.back().back();
  return plan.network->layers[last].output_in_parts;
}

/// Returns a rank's part of the activations of a micro-batch.
EqualPart part_of_rank(const TrainingPlan& plan, const Coordinates& place) {
  const int data = plan.mesh.size(Axis::data, place.pipeline), tensor = plan.mesh.size(Axis::tensor, place.pipeline);
  if (!in_parts(plan, place.pipeline)) return {place.data, data};
  return {place.data * tensor + place.tensor, data * tensor};
}

}  // namespace

std::vector<StageMessage> stage_messages(const TrainingPlan& plan, int rank, int stage, bool sends) {
  const Mesh& mesh = plan.mesh;
  const Coordinates own_place = mesh.coordinates(rank);
  if (mesh.widths.empty()) {
    Coordinates peer_place = own_place;
    peer_place.pipeline = stage;
    return {{mesh.rank(peer_place), {0, 0, 1, 1}}};
  }
  const int sender = sends ? own_place.pipeline : stage;
  std::vector<StageMessage> messages;
  for_each_rank(mesh, stage, [&](int peer, const Coordinates& peer_place) {
    const int from = sends ? own_place.tensor : peer_place.tensor, to = sends ? peer_place.tensor : own_place.tensor;
    if (!in_parts(plan, sender) && to % mesh.size(Axis::tensor, sender) != from) return;
    const EqualPart own_part = part_of_rank(plan, own_place), peer_part = part_of_rank(plan, peer_place);
    if (const auto part = common(own_part, peer_part))
      messages.push_back({peer, *part, share_of(own_place.pipeline < stage ? *part : *common(peer_part, own_part))});
  });
  return messages;
}

std::vector<StageMessage> tied_messages(const TrainingPlan& plan, int rank, bool sends) {
  const Mesh& mesh = plan.mesh;
  const Coordinates own_place = mesh.coordinates(rank);
  const int last = mesh.pipeline - 1, stage = last - own_place.pipeline;
  std::vector<StageMessage> messages;
  if (mesh.widths.empty() || !plan.tied || (own_place.pipeline != 0 && own_place.pipeline != last)) return messages;
  for_each_rank(mesh, stage, [&](int peer, const Coordinates& peer_place) {
    const Coordinates &from = sends ? own_place : peer_place, &to = sends ? peer_place : own_place;
    if (from.data % mesh.size(Axis::data, to.pipeline) != to.data) return;
    const EqualPart own_part{own_place.tensor, mesh.size(Axis::tensor, own_place.pipeline)},
        peer_part{peer_place.tensor, mesh.size(Axis::tensor, stage)};
    if (const auto rows = common(own_part, peer_part))
      messages.push_back({peer, *rows, share_of(sends ? *rows : *common(peer_part, own_part))});
  });
  return messages;
}

double tied_elements(const TrainingPlan& plan, int stage) {
  const std::vector<Layer>& layers = plan.network->layers;
  if (stage == 0) return layers.front().parameters.front().elements;
  return std::ranges::find(layers.back().parameters, "output.weight", &ParameterTensor::name)->elements;
}

}  // namespace trainyard

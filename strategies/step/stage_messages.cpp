#include "strategies/step/stage_messages.hpp"

#include <algorithm>
#include <optional>

namespace trainyard {
namespace {

/// One of so many equal parts of something.
struct EqualPart {
  int index = 0, of = 1;
};

/// What two parts have in common, as chunks of the first; none: nothing.
std::optional<BufferRef> common(const EqualPart& a, const EqualPart& b) {
  const int first = std::max(a.index * b.of, b.index * a.of),
            last = std::min((a.index + 1) * b.of, (b.index + 1) * a.of);
  if (first >= last) return std::nullopt;
  const auto number = [](int n) { return static_cast<std::uint16_t>(n); };
  return BufferRef{0, number(first - a.index * b.of), number(b.of), number(last - first)};
}

double share_of(const BufferRef& part) { return static_cast<double>(part.count) / part.of; }

/// Calls add(rank, its coordinates) for all ranks of a stage.
template <class Add>
void for_each_rank(const Mesh& mesh, int stage, Add add) {
  Coordinates at;
  at.pipeline = stage;
  for (at.data = 0; at.data < mesh.size(Axis::data, stage); ++at.data)
    for (at.tensor = 0; at.tensor < mesh.size(Axis::tensor, stage); ++at.tensor) add(mesh.rank(at), at);
}

/// Have tensor ranks of a stage a part each of its activations?
bool in_parts(const TrainingPlan& plan, int stage) {
  const int last = plan.stages[static_cast<std::size_t>(stage)].chunks.back().back();
  return plan.network->layers[static_cast<std::size_t>(last)].output_in_parts;
}

/// A rank's part of the activations of a micro-batch.
EqualPart held(const TrainingPlan& plan, const Coordinates& at) {
  const int data = plan.mesh.size(Axis::data, at.pipeline), tensor = plan.mesh.size(Axis::tensor, at.pipeline);
  if (!in_parts(plan, at.pipeline)) return {at.data, data};
  return {at.data * tensor + at.tensor, data * tensor};
}

}  // namespace

std::vector<StageMessage> stage_messages(const TrainingPlan& plan, int rank, int stage, bool sends) {
  const Mesh& mesh = plan.mesh;
  const Coordinates own = mesh.of(rank);
  if (mesh.widths.empty()) {
    Coordinates there = own;
    there.pipeline = stage;
    return {{mesh.rank(there), {0, 0, 1, 1}}};
  }
  const int sender = sends ? own.pipeline : stage;
  std::vector<StageMessage> messages;
  for_each_rank(mesh, stage, [&](int peer, const Coordinates& there) {
    const int from = sends ? own.tensor : there.tensor, to = sends ? there.tensor : own.tensor;
    if (!in_parts(plan, sender) && to % mesh.size(Axis::tensor, sender) != from) return;
    const EqualPart here = held(plan, own), other = held(plan, there);
    if (const auto part = common(here, other))
      messages.push_back({peer, *part, share_of(own.pipeline < stage ? *part : *common(other, here))});
  });
  return messages;
}

std::vector<StageMessage> tied_messages(const TrainingPlan& plan, int rank, bool sends) {
  const Mesh& mesh = plan.mesh;
  const Coordinates own = mesh.of(rank);
  const int last = mesh.pipeline - 1, stage = last - own.pipeline;
  std::vector<StageMessage> messages;
  if (mesh.widths.empty() || !plan.tied || (own.pipeline != 0 && own.pipeline != last)) return messages;
  for_each_rank(mesh, stage, [&](int peer, const Coordinates& there) {
    const Coordinates &from = sends ? own : there, &to = sends ? there : own;
    if (from.data % mesh.size(Axis::data, to.pipeline) != to.data) return;
    const EqualPart here{own.tensor, mesh.size(Axis::tensor, own.pipeline)},
        other{there.tensor, mesh.size(Axis::tensor, stage)};
    if (const auto rows = common(here, other))
      messages.push_back({peer, *rows, share_of(sends ? *rows : *common(other, here))});
  });
  return messages;
}

double tied_elements(const TrainingPlan& plan, int stage) {
  const std::vector<Layer>& layers = plan.network->layers;
  if (stage == 0) return layers.front().parameters.front().elements;
  return std::ranges::find(layers.back().parameters, "output.weight", &ParameterTensor::name)->elements;
}

}  // namespace trainyard

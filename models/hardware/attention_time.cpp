#include "models/hardware/attention_time.hpp"

#include <algorithm>
#include <cmath>

#include "models/hardware/shape_numbers.hpp"

namespace trainyard {
namespace {

constexpr double kTileRows = 128;

ShapeNumbers<AttentionWork>& attention_shapes() {
  static ShapeNumbers<AttentionWork> numbers(kFirstAttention, kFirstShape - kFirstAttention, "attention");
  return numbers;
}

}  // namespace

std::uint16_t kernel_of(const AttentionWork& work) { return attention_shapes().number_of(work); }
const AttentionWork& attention_of(std::uint16_t kernel) { return attention_shapes().shape_of(kernel); }

AttentionModel read_attention_model(const Node& node, const std::string& what) {
  Fields fields(node, what);
  constexpr double least = 1e-6, most_tail = 10;
  AttentionModel model;
  model.is_given = true;
  model.forward = fields.number("forward", least, 1);
  model.backward = fields.number("backward", least, 1);
  model.memory = fields.number("memory", least, 1);
  model.tail = fields.number("tail", 0, most_tail, 0);
  fields.finish();
  return model;
}

AttentionTime attention_time(const AttentionModel& model, const GemmChip& chip, const AttentionWork& work, Flops flops,
                             Bytes bytes) {
  const double share = work.backward ? model.backward : model.forward;
  const double pair =
      flops.value / (work.heads * work.pairs) / (chip.peak.value * share);  // time of one pair if all SMs compute it
  const double tiles = work.heads * std::ceil(work.queries / kTileRows);
  const double edge = work.masked ? kTileRows / 2 : 0;
  const double keys = work.pairs / work.queries + edge;
  const double longest = std::max(work.longest, keys);
  const double arithmetic = kTileRows * pair * (tiles * keys + model.tail * chip.sms * longest);
  const double memory = bytes.value / (chip.memory_bandwidth.value * model.memory);
  return {Seconds{arithmetic + memory}, memory > arithmetic};
}

}  // namespace trainyard

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

AttentionModel::Pairs read_pairs(Fields& fields, Key key) {
  AttentionModel::Pairs rates;
  fields.read_map(key, [&rates](Fields& pairs) {
    rates.forward = pairs.number("forward", 0, HUGE_VAL);
    rates.backward = pairs.number("backward", 0, HUGE_VAL);
  });
  return rates;
}

/// Time of one pair of a query and a key if all SMs compute it.
double pair_time(const AttentionModel& model, const GemmChip& chip, const AttentionWork& work, Flops flops) {
  const AttentionModel::Pairs& narrow = work.format == AttentionFormat::fp8_block ? model.fp8_block : model.fp8;
  const double rate = work.backward ? narrow.backward : narrow.forward;
  if (work.format != AttentionFormat::wide && rate > 0) return 1 / rate;
  const double share = work.backward ? model.backward : model.forward;
  const double products = flops.value / (work.heads * work.pairs) / (chip.peak.value * share);
  return model.softmax > 0 && !work.backward ? std::max(products, 1 / model.softmax) : products;
}

}  // namespace

std::uint16_t kernel_of(const AttentionWork& work) { return attention_shapes().number_of(work); }
const AttentionWork& attention_of(std::uint16_t kernel) { return attention_shapes().shape_of(kernel); }
const RegisterShapes register_attention{[] { attention_shapes().free_if_half_full(); }};

AttentionModel read_attention_model(Fields& fields) {
  constexpr double least = 1e-6, most_tail = 10;
  AttentionModel model;
  model.is_given = true;
  model.forward = fields.number(
      {"forward", "Share of the peak that an SM sustains in a tile of the forward pass of attention."}, least, 1);
  model.backward = fields.number(
      {"backward", "Share of the peak that an SM sustains in a tile of the backward pass of attention."}, least, 1);
  model.memory = fields.number({"memory", "Share of the memory bandwidth that attention reaches."}, least, 1);
  model.tail = fields.number({"tail", "At the end the other SMs wait for this share of the longest tile's time."}, 0,
                             most_tail, 0);
  model.softmax = fields.number(
      {"softmax", "Most pairs of a query and a key a second, forward in 16 bits; 0: no limit."}, 0, HUGE_VAL, 0);
  model.fp8 = read_pairs(
      fields,
      {"fp8",
       "Pairs of a query and a key a second in fp8 with a scale for each tensor: {forward: 4e12, backward: 1e12}."});
  model.fp8_block = read_pairs(
      fields, {"fp8_block", "Pairs of a query and a key a second in MXFP8: {forward: 4e12, backward: 1e12}."});
  return model;
}

AttentionTime attention_time(const AttentionModel& model, const GemmChip& chip, const AttentionWork& work, Flops flops,
                             Bytes bytes) {
  const double pair = pair_time(model, chip, work, flops);
  const double tiles = work.heads * std::ceil(work.queries / kTileRows);
  // cuDNN's backward kernels in fp8 compute what a window leaves out too.
  const bool ignores_window = work.format != AttentionFormat::wide && work.backward && work.edges == 2;
  const double keys =
      ignores_window ? (work.queries + kTileRows) / 2 : work.pairs / work.queries + work.edges * kTileRows / 2;
  const double longest = std::max(ignores_window ? work.queries : work.longest, keys);
  const double arithmetic = kTileRows * pair * (tiles * keys + model.tail * chip.sms * longest);
  const double memory = bytes.value / (chip.memory_bandwidth.value * model.memory);
  return {Seconds{arithmetic + memory}, Seconds{memory}};
}

}  // namespace trainyard

#include "models/generation/rl_stack.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard {

Seconds WeightTransfer::time(Bytes policy, int gpus) const {
  const double doublings = std::log2(static_cast<double>(std::max(gpus, doubled_from)) / doubled_from);
  return start + policy / rate + per_doubling * doublings;
}

WeightTransfer read_weight_transfer(const Node& entry) {
  const std::string what = entry_title("weight-transfer", entry, "custom");
  Fields fields(entry, what);
  WeightTransfer transfer;
  transfer.name = read_entry_name(fields, "custom");
  transfer.start = fields.seconds("start", Seconds{0});
  transfer.rate = fields.bandwidth("rate");
  transfer.per_doubling = fields.seconds("per_doubling", Seconds{0});
  transfer.doubled_from = fields.integer_within<int>("doubled_from", 1, 1 << 20, 1);
  fields.finish();
  transfer.sources = figure_sources(entry, what);
  return transfer;
}

RlStack read_rl_stack(const Node& entry) {
  const std::string what = entry_title("rl-stack", entry, "custom");
  Fields fields(entry, what);
  RlStack stack;
  stack.name = read_entry_name(fields, "custom");
  stack.loop = fields.seconds("loop");
  stack.reload = fields.seconds("reload");
  stack.pack_fill = fields.number("pack_fill", 0.01, 1, 1);
  stack.colocated_transfer = fields.text("colocated_transfer");
  stack.apart_transfer = fields.text("apart_transfer");
  fields.finish();
  stack.sources = figure_sources(entry, what);
  return stack;
}

}  // namespace trainyard

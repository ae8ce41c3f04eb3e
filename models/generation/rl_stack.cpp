#include "models/generation/rl_stack.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

/// Returns "KIND NAME", the name of an entry in errors and sources.
std::string entry_title(const char* kind, const Node& entry) {
  const Node* name = entry.find("name");
  return std::string(kind) + " " + (name ? name->scalar : "custom");
}

}  // namespace

Seconds WeightTransfer::time(Bytes policy, int gpus) const {
  const double doublings = std::log2(static_cast<double>(std::max(gpus, doubled_from)) / doubled_from);
  return start + policy / rate + per_doubling * doublings;
}

WeightTransfer read_weight_transfer(const Node& entry) {
  const std::string what = entry_title("weight-transfer", entry);
  Fields fields(entry, what);
  WeightTransfer transfer;
  transfer.name = fields.text("name", "custom");
  fields.text("description", "");
  fields.child("sources");
  transfer.start = fields.seconds("start", Seconds{0});
  transfer.rate = fields.bandwidth("rate");
  transfer.per_doubling = fields.seconds("per_doubling", Seconds{0});
  transfer.doubled_from = fields.integer_within<int>("doubled_from", 1, 1 << 20, 1);
  fields.finish();
  transfer.sources = figure_sources(entry, what);
  return transfer;
}

RlStack read_rl_stack(const Node& entry) {
  const std::string what = entry_title("rl-stack", entry);
  Fields fields(entry, what);
  RlStack stack;
  stack.name = fields.text("name", "custom");
  fields.text("description", "");
  fields.child("sources");
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

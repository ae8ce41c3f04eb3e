#include "models/stack.hpp"

namespace trainyard {
namespace {

/// A time of at most a minute, zero by default; more is a slip, and as picoseconds sums of it would overflow.
Seconds overhead(Fields& fields, const char* key) {
  constexpr Seconds most{60};
  const Seconds time = fields.seconds(key, Seconds{0});
  if (time > most) fail(fields.place_of(key), fields.what() + ": " + key + ": more than " + show(most));
  return time;
}

void read_parallel(SoftwareStack::Parallel& parallel, const Node& node, const std::string& what) {
  Fields fields(node, what);
  parallel.zero_stage = static_cast<int>(fields.integer("zero_stage", 0, 0));
  if (parallel.zero_stage > 3) fail(fields.place_of("zero_stage"), what + ".zero_stage: 0, 1, 2 or 3");
  parallel.sequence = fields.boolean("sequence", parallel.sequence);
  parallel.overlap_tensor = fields.boolean("overlap_tensor", parallel.overlap_tensor);
  parallel.overlap_parameters = fields.boolean("overlap_parameters", parallel.overlap_parameters);
  parallel.overlap_pipeline = fields.boolean("overlap_pipeline", parallel.overlap_pipeline);
  parallel.scatter_gather = fields.boolean("scatter_gather", parallel.scatter_gather);
  parallel.fused_accumulation = fields.boolean("fused_accumulation", parallel.fused_accumulation);
  fields.finish();
}

}  // namespace

SoftwareStack read_stack(const Node& entry) {
  const Node* name = entry.find("name");
  const std::string what = "stack " + (name ? name->scalar : "custom-stack");
  Fields fields(entry, what);
  SoftwareStack stack;
  stack.name = fields.text("name", "custom-stack");
  stack.description = fields.text("description", "");
  fields.child("sources");
  stack.kernel_dispatch = overhead(fields, "kernel_dispatch");
  stack.collective_launch = overhead(fields, "collective_launch");
  stack.network_step = overhead(fields, "network_step");
  stack.cycle_time = overhead(fields, "cycle_time");
  stack.step_overhead = overhead(fields, "step_overhead");
  stack.whole_tensors = fields.boolean("whole_tensors", stack.whole_tensors);
  stack.bucket = fields.bytes("bucket");
  stack.first_bucket = fields.bytes("first_bucket", stack.bucket);
  stack.overlap = fields.boolean("overlap", stack.overlap);
  stack.gradient_bucket_copy = fields.boolean("gradient_bucket_copy", stack.gradient_bucket_copy);
  stack.host_buckets = fields.boolean("host_buckets", stack.host_buckets);
  if (stack.host_buckets && !stack.gradient_bucket_copy)
    fail(fields.place_of("host_buckets"), what + ": host_buckets: only with gradient_bucket_copy");
  stack.fused_loss = fields.boolean("fused_loss", stack.fused_loss);
  stack.workspace = fields.bytes("workspace", Bytes{0});
  if (const Node* parallel = fields.child("parallel")) read_parallel(stack.parallel, *parallel, what + ": parallel");
  fields.finish();
  stack.sources = figure_sources(entry, what);
  return stack;
}

}  // namespace trainyard

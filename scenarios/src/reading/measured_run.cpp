#include "scenarios/src/reading/measured_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace trainyard {
namespace {

constexpr std::array kCounted{"model", "layers", "attention", "causal_attention", "recomputation"};

Flops flops_of_layers(const Network& network) {
  double parameters = 0;
  for (std::size_t l = 1; l + 1 < network.layers.size(); ++l) parameters += network.layers[l].active_elements();
  return Flops{6 * parameters};
}

std::vector<CountedFlops> read_counted(Fields& fields) {
  std::vector<CountedFlops> counted;
  for (const std::size_t what : fields.choices("counts", {kCounted.begin(), kCounted.end()}))
    counted.push_back(static_cast<CountedFlops>(what));
  if (counted.empty()) fields.refuse("rate", "measured.counts expected too, such as [model, attention]");
  return counted;
}

constexpr const char* kWhat = "plan.measured_step";

std::vector<MeasuredSteps::Row>::const_iterator first_from(const MeasuredSteps& steps, std::int64_t batch) {
  return std::ranges::lower_bound(steps.rows, batch, {}, &MeasuredSteps::Row::batch);
}

std::int64_t batch_of(const std::string& key, const Place& place) {
  if (const std::int64_t batch = find_integer(key).value_or(0); batch >= 1) return batch;
  fail(place, fmt::format("{}.table: \"{}\" is no batch; expected a whole number from 1", kWhat, key));
}

bool same_work(const KernelCall& a, const KernelCall& b) {
  return a.work.flops == b.work.flops && a.work.bytes == b.work.bytes && a.work.kernel == b.work.kernel;
}

bool computes_the_same(const Network& a, const Network& b) {
  const auto same_layer = [](const Layer& layer, const Layer& other) {
    return std::ranges::equal(layer.forward, other.forward, same_work) &&
           std::ranges::equal(layer.backward, other.backward, same_work) &&
           layer.parameter_elements() == other.parameter_elements();
  };
  return std::ranges::equal(a.layers, b.layers, same_layer);
}

/// Makes the catalog's network with the model's lengths and options. Returns an empty network if it cannot have them.
Network make_catalog_network(ModelChoice model, NetworkEntry entry, Precision precision) {
  model.entry = std::move(entry);
  try {
    return network_of(model, 1, precision);
  } catch (const UserError&) {
    return {};
  }
}

}  // namespace

Flops counted_flops_per_token(const Network& network, const std::vector<CountedFlops>& counted) {
  const auto counts = [&](CountedFlops what) { return std::ranges::find(counted, what) != counted.end(); };
  Flops attention;
  if (counts(CountedFlops::causal_attention)) attention = network.attention_flops_per_token() * 0.5;
  if (counts(CountedFlops::attention)) attention = network.attention_flops_per_token();
  Flops all = attention;
  if (counts(CountedFlops::model))
    all += network.model_flops_per_token();
  else if (counts(CountedFlops::layers))
    all += flops_of_layers(network);
  constexpr double kForward = 1.0 / 3;  // share of the forward pass in the FLOPs of both passes
  if (counts(CountedFlops::recomputation)) all += (flops_of_layers(network) + attention) * kForward;
  return all;
}

MeasuredRun read_measured_run(const Node& node, const Network& network, double samples, int devices) {
  const double tokens = samples * static_cast<double>(network.tokens_per_sample);
  Fields fields(node, "measured");
  MeasuredRun run;
  run.family = fields.text("family", "");
  run.source = fields.text("source");
  run.assumed = fields.text("assumed", "");
  run.peak_memory = fields.bytes("peak_memory", Bytes{0});
  run.reserved_memory = fields.bytes("reserved_memory", Bytes{0});
  run.device_memory = fields.bytes("device_memory", Bytes{0});
  run.out_of_memory = fields.boolean("out_of_memory", false);
  const int times =
      fields.has("step_time") + fields.has("rate") + fields.has("tokens_per_s") + fields.has("samples_per_s");
  if (times == 0 && (run.has_memory() || run.out_of_memory)) {
    fields.finish();
    return run;
  }
  if (times != 1) fail(fields.place(), "measured: one of step_time, rate, tokens_per_s and samples_per_s expected");
  if (fields.has("rate")) {
    run.rate = fields.flops_rate("rate");
    const std::vector<CountedFlops> counted = read_counted(fields);
    for (const CountedFlops what : counted)
      run.counted += (run.counted.empty() ? "" : ", ") + std::string(kCounted[static_cast<std::size_t>(what)]);
    run.step_time = counted_flops_per_token(network, counted) * (tokens / devices) / run.rate;
  } else if (fields.has("tokens_per_s")) {
    run.tokens_per_s = fields.number("tokens_per_s", 1e-6, 1e12);
    run.step_time = Seconds{tokens / devices / run.tokens_per_s};
  } else if (fields.has("samples_per_s")) {
    run.step_time = Seconds{samples / fields.number("samples_per_s", 1e-6, 1e12)};
  } else {
    run.step_time = fields.seconds("step_time");
    if (!(run.step_time.value > 0)) fields.refuse("step_time", "more than 0 expected");
  }
  fields.finish();
  return run;
}

Seconds MeasuredSteps::step_time(std::int64_t batch) const {
  const auto above = first_from(*this, batch);
  if (above == rows.end() || (above == rows.begin() && above->batch != batch))
    fail(place, fmt::format("{}: measured for batches from {} to {}, but micro_batch_size is {}", kWhat,
                            rows.front().batch, rows.back().batch, batch));
  if (above->batch == batch) return above->time;
  const MeasuredSteps::Row &a = *(above - 1), &b = *above;
  const double share = static_cast<double>(batch - a.batch) / static_cast<double>(b.batch - a.batch);
  return a.time + (b.time - a.time) * share;
}

std::string MeasuredSteps::provenance(std::int64_t batch) const {
  const auto above = first_from(*this, batch);
  if (above == rows.end() || above->batch == batch || above == rows.begin()) return "measured";
  return fmt::format("interpolated between {} and {}", (above - 1)->batch, above->batch);
}

MeasuredSteps read_measured_steps(const Node& node) {
  Fields fields(node, kWhat);
  MeasuredSteps steps;
  steps.place = node.place;
  steps.source = fields.text({"source", "Source of these times, for example our runs of May."});
  steps.network = fields.text({"network", "Name of the network that was measured, for example resnet50."});
  steps.network_place = fields.place_of("network");
  const Node& table = fields.required_child("table");
  fields.child({"precision",
                "Precision of the measured steps, for example bf16. Default: the plan's. A different precision in the "
                "plan is an error."});  // compared by require_precision
  fields.finish();
  if (table.kind != Node::Kind::map || table.fields.empty())
    fail(table.place, fmt::format("{}.table: expected step times by batch, such as {{1: 4.2 ms, 32: 5.9 ms}}", kWhat));
  Fields times(table, fmt::format("{}.table", kWhat));
  for (const auto& [key, value] : table.fields) {
    const std::int64_t batch = batch_of(key, value.key_place);
    if (!steps.rows.empty() && batch <= steps.rows.back().batch)
      fail(value.key_place, fmt::format("{}.table: batch {} after {}; batches must rise, each once", kWhat, batch,
                                        steps.rows.back().batch));
    const Seconds time = times.seconds({key, "Time of a step with N samples, for example 4.2 ms."});
    if (!(time.value > 0)) fail(value.place, fmt::format("{}.table.{}: must be greater than 0", kWhat, key));
    steps.rows.push_back({batch, time});
  }
  return steps;
}

void require_steps_of(const MeasuredSteps& steps, const ModelChoice& model, Precision precision,
                      const Catalog& catalog) {
  const Network network = network_of(model, 1, precision);
  const auto refuse = [&steps](const std::string& what) {
    fail(steps.network_place, fmt::format("{}.network: steps of {}, but the model is {}", kWhat, steps.network, what));
  };
  if (!same_name(steps.network, network.name)) refuse(network.name);
  const std::vector<std::string> names = catalog.names("network");
  if (std::ranges::none_of(names, [&](const auto& name) { return same_name(name, steps.network); })) return;
  const Network catalog_network = make_catalog_network(
      model, read_network_entry(catalog.resolve("network", Node::scalar_node(steps.network, {}))), precision);
  if (!computes_the_same(network, catalog_network))
    refuse(fmt::format("another one of that name: {} layers and {:.6g} parameters, not {} and {:.6g}",
                       network.layers.size(), network.parameters(), catalog_network.layers.size(),
                       catalog_network.parameters()));
}

}  // namespace trainyard

#include "scenarios/src/reading/measured_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

}  // namespace

Flops counted_flops_per_token(const Network& network, const std::vector<CountedFlops>& counted) {
  const auto counts = [&](CountedFlops what) {
    return std::find(counted.begin(), counted.end(), what) != counted.end();
  };
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

}  // namespace trainyard

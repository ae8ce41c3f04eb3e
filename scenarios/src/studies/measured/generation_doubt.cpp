#include "scenarios/src/studies/measured/generation_doubt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "models/fitted/measured_table.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/csv_cell.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "scenarios/src/studies/measured/system_spread.hpp"
#include "sim/error.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"

namespace trainyard {
namespace {

constexpr const char* kErrorTable = "scenarios/measured/tables/serving_errors.csv";

GenerationFigure figure_called(const std::string& name) {
  for (std::size_t i = 0; i < kGenerationFigures.size(); ++i)
    if (name == kGenerationFigures[i]) return static_cast<GenerationFigure>(i);
  throw InternalError("engines have no measured figure " + name);
}

std::string system_of(const EngineTraits& t) {
  return fmt::format("{} {} {} {}", t.engine, t.gpu, t.network, t.weights);
}

/// Returns the traits of a scenario with the section `generation`.
EngineTraits engine_traits(const Scenario& s) {
  const PostTrainingChoice& choice = *s.generation;
  return {choice.engine.name, choice.generators.node.gpu.name,
          trait_of(traits_of(s), StepTrait::network).ends_with("mixtures of experts") ? "experts" : "dense",
          engine_formats()[static_cast<std::size_t>(choice.layout.weights)]};
}

void add_errors(std::vector<GenerationError>& all, const MeasuredFamily& family, GenerationFigure figure,
                const std::vector<MeasuredPoint>& points) {
  for (const MeasuredPoint& point : points)
    all.push_back({figure, engine_traits(read_scenario(family.scenario(family.row(point.id)), point.id)),
                   std::log(point.predicted / point.measured)});
}

void add_family(std::vector<GenerationError>& all, const MeasuredFamily& family, const FamilyPrediction& prediction) {
  for (std::size_t i = 0; i < prediction.figures.size(); ++i)
    if (const std::optional<ErrorSet> errors = prediction.figure(i))
      add_errors(all, family, figure_called(prediction.figures[i].name), errors->points);
}

}  // namespace

std::vector<GenerationError> generation_errors(const std::vector<MeasuredFamily>& serving,
                                               const std::vector<FamilyPrediction>& predictions) {
  std::vector<GenerationError> all;
  for (std::size_t f = 0; f < serving.size(); ++f) add_family(all, serving[f], predictions[f]);
  const std::vector<MeasuredFamily> fitted = measured_families({"post-training"}, {"trtllm"});
  const FamilyPrediction prediction = predict_families(fitted).front();
  add_errors(all, fitted.front(), GenerationFigure::throughput,
             fit_sequence_time(fitted.front(), prediction).left_out.points);
  return all;
}

const GenerationDoubt& GenerationDoubt::shipped() {
  static const GenerationDoubt doubt = [] {
    std::vector<GenerationError> errors;
    MeasuredTable table(shipped_file(kErrorTable), {"figure", "engine", "gpu", "network", "weights", "error"});
    while (table.next())
      errors.push_back({figure_called(table.text("figure")),
                        {table.text("engine"), table.text("gpu"), table.text("network"), table.text("weights")},
                        table.number("error")});
    return GenerationDoubt(std::move(errors));
  }();
  return doubt;
}

std::string GenerationDoubt::csv() const {
  std::string text =
      "# Errors of figures of engines that answer prompts, as ln(predicted / measured). Repeat: trainyard validate "
      "serving --csv FILE\nfigure,engine,gpu,network,weights,error\n";
  for (const GenerationError& e : errors_)
    text += fmt::format("{},{},{},{},{},{:.4f}\n", kGenerationFigures[static_cast<std::size_t>(e.figure)],
                        csv_cell(e.traits.engine), csv_cell(e.traits.gpu), e.traits.network, e.traits.weights, e.error);
  return text;
}

double GenerationDoubt::spread(GenerationFigure figure, const std::string& network, double probability,
                               const std::string& left_out) const {
  SystemErrors of_kind, of_others;
  for (const GenerationError& e : errors_) {
    const std::string system = system_of(e.traits);
    if (e.figure != figure || system == left_out) continue;
    (e.traits.network == network ? of_kind : of_others)[system].push_back(e.error);
  }
  return spread_of_kind(of_kind, {&of_others}, probability);
}

std::string GenerationDoubt::unmeasured(const EngineTraits& traits) const {
  std::vector<std::string> parts;
  const auto add = [&](std::string EngineTraits::*trait, const std::string& words) {
    const auto has_trait = [&](const GenerationError& e) { return e.traits.*trait == traits.*trait; };
    if (std::ranges::none_of(errors_, has_trait)) parts.push_back(words + traits.*trait);
  };
  add(&EngineTraits::engine, "the engine ");
  add(&EngineTraits::gpu, "the GPU ");
  add(&EngineTraits::weights, "weights in ");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<CoveredRow> cover_each_engine(const GenerationDoubt& doubt, GenerationFigure figure) {
  std::map<std::tuple<std::string, std::string, double>, double> spreads;
  std::vector<CoveredRow> covered;
  ProgressLine progress;
  for (const GenerationError& e : doubt.errors()) {
    if (e.figure != figure) continue;
    end_if_interrupted();
    progress.show(fmt::format("intervals of engines: {} rows", covered.size()));
    const std::string system = system_of(e.traits);
    const auto range = [&](double probability) {
      const auto [found, is_new] = spreads.try_emplace({system, e.traits.network, probability});
      if (is_new) found->second = doubt.spread(figure, e.traits.network, probability, system);
      return StepRange{std::exp(-found->second), std::exp(found->second)};
    };
    covered.push_back(covered_row(system, std::exp(-e.error), range));
  }
  return covered;
}

void add_generation_intervals(const Scenario& s, GenerationResult& r) {
  const GenerationDoubt& doubt = GenerationDoubt::shipped();
  const EngineTraits traits = engine_traits(s);
  const auto interval = [&](GenerationFigure figure, double value) {
    const double factor = std::exp(doubt.spread(figure, traits.network, kLikely));
    return std::array{value / factor, value * factor};
  };
  const bool is_closed = s.generation->concurrency > 0;
  const GenerationFigure rate = is_closed ? GenerationFigure::token : GenerationFigure::throughput;
  r.likely_tokens = interval(rate, r.tokens_per_s);
  r.likely_time = interval(rate, r.engines.generation.value);
  r.unmeasured = doubt.unmeasured(traits);
  const PostTrainingChoice& choice = *s.generation;
  const auto add = [&r](bool has_option, const char* words) {
    if (has_option) r.unmeasured += (r.unmeasured.empty() ? "" : ", ") + std::string(words);
  };
  add(choice.speculation.tokens > 0, "speculation");
  add(choice.layout.tensor > 1 && choice.layout.data > 1, "copies of split layers");
  if (!is_closed) return;
  r.likely_token = interval(GenerationFigure::token, r.engines.answers.token.value);
  r.likely_first_token = interval(GenerationFigure::first_token, r.engines.answers.first_token.value);
}

}  // namespace trainyard

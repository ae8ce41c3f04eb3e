// Measurements of parts of a machine: recognizing their kinds, and fitting constants to the rows of any kind.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "models/fitted/measured_table.hpp"
#include "scenarios/src/studies/measured/part_fitter.hpp"
#include "scenarios/src/traces/kineto.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr int kPartRounds = 5;
/// Two measurements of one thing that differ by a larger factor contradict each other.
constexpr double kUnlikeRows = 1.5;

enum class PartKind : std::uint8_t { none, collectives, products, memory, kernels };

bool has_column(const std::vector<std::string>& header, std::string_view name) {
  return std::ranges::any_of(header, [name](const std::string& column) { return trim(column) == name; });
}

PartKind kind_of_table(const fs::path& file) {
  if (is_nsight_summary(file)) return PartKind::kernels;
  const std::vector<std::string> header = MeasuredTable(file).header();
  if (has_column(header, "step_time_s") || has_column(header, "step_time_ms")) return PartKind::none;
  if (has_column(header, "message_bytes")) return PartKind::collectives;
  if (has_column(header, "m") && has_column(header, "n") && has_column(header, "k")) return PartKind::products;
  const bool has_memory = used_column(header) < header.size() || has_column(header, "device_memory");
  return has_memory ? PartKind::memory : PartKind::none;
}

PartKind kind_of_text(const fs::path& file) {
  constexpr int most_lines_of_screen = 200;  // a longer text is the log of a job that called nvidia-smi first
  std::ifstream in(file);
  bool has_screen = false;
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    if (line.find("algbw") != std::string::npos && line.find("busbw") != std::string::npos)
      return PartKind::collectives;
    has_screen = has_screen || line.find("NVIDIA-SMI") != std::string::npos;
  }
  return has_screen && lines < most_lines_of_screen ? PartKind::memory : PartKind::none;
}

PartKind kind_of(const std::string& file) {
  std::error_code error;
  const std::string extension = fs::path(file).extension().string();
  if (!fs::is_regular_file(file, error)) return amount_of(file) ? PartKind::memory : PartKind::none;
  if (extension == ".yaml") return PartKind::none;
  if (extension == ".json" || extension == ".gz" || extension == ".sqlite") return PartKind::kernels;
  return extension == ".csv" ? kind_of_table(file) : kind_of_text(file);
}

}  // namespace

std::size_t used_column(const std::vector<std::string>& header) {
  const auto column = std::ranges::find_if(header, [](const auto& c) { return trim(c).starts_with("memory.used"); });
  return static_cast<std::size_t>(column - header.begin());
}

std::optional<Bytes> amount_of(const std::string& text) {
  try {
    return parse_bytes(text);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

PartFitter::PartFitter(Node scenario, std::string name) : name_(std::move(name)) {
  fitted_.document = std::move(scenario);
}

Scenario PartFitter::scenario(const Overrides& more) const {
  Overrides sets = fitted_.sets;
  sets.insert(sets.end(), more.begin(), more.end());
  return read_scenario(fitted_.document, name_, sets);
}

void PartFitter::fit(const PartRows& rows, const std::vector<ScaleRule>& rules, ScaleFitOptions options,
                     const Overrides& always) {
  options.rounds = kPartRounds;
  const auto sets_of = [&](const ScaleLogs& logs) {
    Overrides sets = scaled_sets(rules, logs);
    if (!sets.empty()) sets.insert(sets.begin(), always.begin(), always.end());
    return sets;
  };
  const auto errors_of = [&](const std::vector<ScaleLogs>& trials) {
    std::vector<std::vector<double>> errors;
    for (const ScaleLogs& logs : trials) {
      std::vector<double>& trial_errors = errors.emplace_back();
      Overrides sets = rows.conditions;
      for (auto& set : sets_of(logs)) sets.push_back(std::move(set));
      const std::vector<double> predicted = rows.predict(scenario(sets));
      for (std::size_t i = 0; i < predicted.size(); ++i)
        trial_errors.push_back(std::log(predicted[i] / rows.measured[i]));
    }
    return errors;
  };
  ScaleFit scales = fit_scales(rules, errors_of, options);
  forget_undetermined(rules, scales);
  AnchorPart part{rows.words, 0, 0, "", 0};
  const auto errors = errors_of({ScaleLogs(rules.size(), 0.0), scales.logs});
  const auto n = static_cast<double>(rows.measured.size());
  for (std::size_t i = 0; i < rows.measured.size(); ++i) {
    const double before = std::expm1(errors[0][i]), after = std::expm1(errors[1][i]);
    part.before += std::abs(before) / n;
    part.after += std::abs(after) / n;
    if (part.worst.empty() || std::abs(after) > std::abs(part.worst_error))
      std::tie(part.worst, part.worst_error) = std::tie(rows.names[i], after);
  }
  fitted_.parts.push_back(std::move(part));
  warn_of(rows, errors[1]);
  for (std::size_t k = 0; k < rules.size(); ++k)
    fitted_.scales.push_back({rules[k].words, rules[k].prior, scales.spreads[k], std::exp(scales.logs[k])});
  for (auto& set : sets_of(scales.logs)) fitted_.sets.push_back(std::move(set));
}

void PartFitter::warn_of(const PartRows& rows, const std::vector<double>& errors) {
  constexpr double kFarOff = 3;  // no constant of a machine explains a factor like this
  std::map<std::string, double> first;
  for (std::size_t i = 0; i < rows.measured.size(); ++i) {
    const auto [earlier, is_first] = first.try_emplace(rows.names[i], rows.measured[i]);
    const double ratio = rows.measured[i] / earlier->second, factor = std::max(ratio, 1 / ratio);
    const double off = std::exp(std::abs(errors[i]));
    if (!is_first && factor > kUnlikeRows)
      fitted_.warnings.push_back(
          fmt::format("{}: two measurements differ by a factor of {:.3g}", rows.names[i], factor));
    else if (off > kFarOff)
      fitted_.warnings.push_back(
          fmt::format("{}: {:.3g} times off after the fit; is this row right?", rows.names[i], off));
  }
}

bool measures_part(const std::string& file) { return kind_of(file) != PartKind::none; }

AnchorParts fit_parts(const Node& scenario, const std::string& name, const std::vector<std::string>& files, int steps) {
  Node document = scenario;
  name_stack(document, read_scenario(scenario, name).software.name);
  PartFitter fitter(std::move(document), name);
  fitter.traced_steps = steps;
  // The chip and its wires come before the stack, whose kernels and memory depend on them.
  const std::pair<PartKind, void (*)(PartFitter&, const std::vector<std::string>&)> kinds[] = {
      {PartKind::collectives, fit_collectives},
      {PartKind::products, fit_products},
      {PartKind::kernels, fit_traced_kernels},
      {PartKind::memory, fit_memory}};
  for (const auto& [kind, fit] : kinds) {
    std::vector<std::string> files_of_kind;
    for (const std::string& file : files)
      if (kind_of(file) == kind) files_of_kind.push_back(file);
    if (files_of_kind.empty()) continue;
    const bool needs_stack = kind == PartKind::kernels || kind == PartKind::memory;
    if (needs_stack && fitter.scenario().software.name == "plain")
      throw UserError("anchor: plain is an ideal stack, which nobody can measure; name another one in software");
    fit(fitter, files_of_kind);
  }
  return fitter.take();
}

}  // namespace trainyard

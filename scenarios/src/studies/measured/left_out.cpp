#include "scenarios/src/studies/measured/left_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "models/fitted/fitting.hpp"
#include "scenarios/src/studies/measured/fitted_constants.hpp"
#include "scenarios/src/studies/measured/scale_fit.hpp"
#include "sim/error.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kTrialStep = 1.1;    // factor on a constant in the trial that gives its derivative
constexpr double kFarthest = 0.08;    // largest change of a logarithm for which step times are close to linear
constexpr double kLeastSlope = 1e-3;  // a row depends on a constant if the |derivative| of its error is larger

constexpr double kAnyNumber = 1e9;

/// The range of values that the reader of an entry accepts.
struct ReaderBounds {
  const char* key;  ///< ending of the key
  double least = 0, most = kAnyNumber;
};
constexpr ReaderBounds kReaderBounds[] = {{"sustained_clock", 0.05, 1},
                                          {"gemm.sustained", 0.05, 1},
                                          {"gemm.fp8", 0.05, 2},
                                          {"gemm.fp8_block", 0.05, 1},
                                          {"gemm.sustained_fp8", 0.05, 1},
                                          {"gemm.sustained_fp4", 0.05, 1},
                                          {"scan_backward.memory", 0.02, 1},
                                          {"user_buffers.overlapped", 0.0, 1},
                                          {"user_buffers.overlapped_fp8", 0.0, 1},
                                          {".forward", 0.05, 1},
                                          {".backward", 0.05, 1},
                                          {"slowdowns.overlapped", 1}};

double number_of(const std::string& figure) { return std::strtod(figure.c_str(), nullptr); }

/// Multiplies a figure such as "50 us" by a factor, in the same unit.
std::string multiply_figure(const std::string& figure, double factor) {
  char* unit = nullptr;
  const double number = std::strtod(figure.c_str(), &unit);
  return fmt::format("{:.4g}{}", number * factor, unit);
}

/// One constant, or the forward and backward rates of attention on one architecture. These two rates are left out
/// together, because an entry must have both or none.
struct TriedConstant {
  std::vector<FittedConstant> parts;  ///< largest value first

  const FittedConstant& first() const { return parts.front(); }
  /// Returns the key of the map that has the constant.
  std::string owner() const { return first().key.substr(0, first().key.rfind('.')); }
  bool takes(const FittedConstant& other) const {
    return other.kind == "attention" && first().kind == "attention" && other.entries == first().entries &&
           other.key.substr(0, other.key.rfind('.')) == owner();
  }
  std::string name() const {
    return parts.size() == 1 ? first().name() : fmt::format("attention {}: {}", first().entries.front(), owner());
  }
  std::string value(double log = 0) const {
    std::vector<std::string> all;
    for (const FittedConstant& part : parts) all.push_back(multiply_figure(part.value, std::exp(log)));
    std::ranges::sort(all, std::greater<>());
    return fmt::format("{}", fmt::join(all, ", "));
  }
  /// Limits a change to the values that the reader accepts.
  double limit_change(double log) const {
    ReaderBounds bounds{""};
    for (const ReaderBounds& candidate : kReaderBounds)
      if (first().key.ends_with(candidate.key)) bounds = candidate;
    const double number = number_of(first().value);
    if (bounds.least > 0) log = std::max(log, std::log(bounds.least / number));
    return bounds.most < kAnyNumber ? std::min(log, std::log(bounds.most / number)) : log;
  }
  /// Returns the change in the trial for the derivative: upwards, or downwards if the upper bound is too near.
  double step() const {
    const double rise = std::log(kTrialStep);
    return limit_change(rise) < rise ? -rise : rise;
  }
  std::vector<FigureTrial> trials(double log) const {
    std::vector<FigureTrial> all;
    for (const FittedConstant& part : parts)
      for (FigureTrial& trial : part.trials(multiply_figure(part.value, std::exp(log))))
        all.push_back(std::move(trial));
    return all;
  }
  std::vector<FigureTrial> removal() const {
    FittedConstant all = first();
    if (parts.size() > 1) all.key = owner();
    return all.trials("");
  }
};

std::vector<TriedConstant> constants_of_runs() {
  std::vector<TriedConstant> all;
  for (FittedConstant& constant : fitted_constants()) {
    if (constant.by_command || number_of(constant.value) == 0) continue;
    const auto pair = std::ranges::find_if(all, [&](const TriedConstant& t) { return t.takes(constant); });
    TriedConstant& target = pair == all.end() ? all.emplace_back() : *pair;
    target.parts.push_back(std::move(constant));
    sort_stably(target.parts, [](const auto& a, const auto& b) { return number_of(a.value) > number_of(b.value); });
  }
  return all;
}

double log_error(const RunPrediction& run) { return std::log(run.step_time / run.measured.step_time.value); }

/// Selects rows, spread evenly over a family.
std::vector<std::size_t> select_spread_rows(std::size_t rows, int wanted) {
  const std::size_t count = std::min(rows, static_cast<std::size_t>(std::max(1, wanted)));
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < count; ++i) indices.push_back((2 * i + 1) * rows / (2 * count));
  return indices;
}

/// Refits constants without each family in turn, or to all families.
class Refitting {
 public:
  /// `removes`: also finds the change of each constant that has the same effect as leaving it out.
  Refitting(const std::vector<MeasuredFamily>& families, const LeftOutOptions& options, bool removes)
      : families_(families), options_(options) {
    std::vector<RunOfFamily> jobs;
    for (std::size_t f = 0; f < families_.size(); ++f)
      for (std::size_t row = 0; is_left_out(f) && row < families_[f].ids.size(); ++row)
        jobs.push_back({f, row, {}, true});
    predict(jobs);
    for (TriedConstant& constant : constants_of_runs())
      if (std::ranges::any_of(catalog_runs_, [&](const auto& run) {
            return run.second.refused.empty() && reads(entries_of(run.second), constant.first());
          }))
        constants_.push_back(std::move(constant));
    jobs.clear();
    for (std::size_t f = 0; f < families_.size(); ++f)
      for (const std::size_t row : rows_to_fit(f))
        if (!is_left_out(f) && reads_any(f, row)) jobs.push_back({f, row});
    predict(jobs);
    differentiate(removes);
  }

  std::vector<RefittedFamily> without_each() const {
    std::vector<TriedFamily> tried_families;
    for (std::size_t f = 0; f < families_.size(); ++f)
      if (is_left_out(f)) tried_families.push_back(refit_without(f));
    return options_.predicts ? predict_again(tried_families, "runs left out of the fit") : without_runs(tried_families);
  }

  std::vector<RefittedFamily> to_all() const {
    const TriedFamily nearest = nearest_to_all();
    std::vector<TriedFamily> tried_families(families_.size(), nearest);
    for (std::size_t f = 0; f < families_.size(); ++f) tried_families[f].family = f;
    return predict_again(tried_families, "runs by constants fitted again");
  }

 private:
  /// The refitted constants to try for a family.
  struct TriedFamily {
    std::size_t family = 0;
    std::vector<FigureTrial> trials = {};
    std::vector<RefittedConstant> constants = {};

    void add(const TriedConstant& constant, std::optional<double> log) {
      constants.push_back({constant.name(), constant.value(), log ? constant.value(*log) : ""});
    }
    void add(std::vector<FigureTrial> more) { std::ranges::move(more, std::back_inserter(trials)); }
  };

  const std::vector<MeasuredFamily>& families_;
  const LeftOutOptions& options_;
  /// Predictions with the catalog's constants, indexed by family and row.
  std::map<std::pair<std::size_t, std::size_t>, RunPrediction> catalog_runs_;
  std::vector<TriedConstant> constants_;
  std::vector<ConstantRow> rows_;  // rows of all families, with the slopes of all constants
  /// For each constant, the change of its logarithm that acts like leaving it out.
  std::vector<double> removal_changes_;
  /// The names of an entry and of its bases, indexed by kind and name.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> chains_;

  bool is_left_out(std::size_t family) const {
    const std::vector<std::string>& only = options_.families;
    return only.empty() || std::ranges::count(only, families_[family].name) > 0;
  }
  std::vector<std::size_t> rows_to_fit(std::size_t family) const {
    return select_spread_rows(families_[family].ids.size(), options_.rows_of_family);
  }

  /// Predicts runs as the catalog has them.
  void predict(const std::vector<RunOfFamily>& jobs) {
    std::vector<RunPrediction> runs = predict_runs(families_, jobs, "runs as the catalog has them");
    for (std::size_t i = 0; i < jobs.size(); ++i) catalog_runs_[{jobs[i].family, jobs[i].row}] = std::move(runs[i]);
  }

  /// The entries of the catalog that a run uses.
  struct UsedEntries {
    std::string gpu, stack, attention;
  };
  static UsedEntries entries_of(const RunPrediction& run) {
    return {run.trait(StepTrait::gpu), run.trait(StepTrait::stack), run.attention};
  }

  /// Returns true if a row uses an entry that states one of the constants; false if its scenario is refused.
  bool reads_any(std::size_t family, std::size_t row) {
    UsedEntries used;
    try {
      const Scenario s = read_scenario(families_[family].scenario(row), families_[family].ids[row]);
      const StepTraits traits = traits_of(s);
      used = {trait_of(traits, StepTrait::gpu), trait_of(traits, StepTrait::stack), s.software.attention_kernel};
    } catch (const UserError&) {
      return false;
    }
    return std::ranges::any_of(constants_, [&](const TriedConstant& c) { return reads(used, c.first()); });
  }

  /// Returns true if one of these entries states the constant.
  bool reads(const UsedEntries& used, const FittedConstant& constant) {
    const std::string& name = constant.kind == "gpu"     ? used.gpu
                              : constant.kind == "stack" ? used.stack
                                                         : used.attention;
    auto [chain, is_new] = chains_.try_emplace({constant.kind, name});
    if (is_new) chain->second = entry_with_bases(constant.kind, name);
    // The base of a chip or stack that the family itself defines is unknown here: it may state the constant.
    if (chain->second.empty()) return !name.empty();
    return std::ranges::any_of(
        chain->second, [&](const std::string& entry) { return std::ranges::count(constant.entries, entry) > 0; });
  }

  void differentiate(bool removes) {
    std::vector<RunOfFamily> jobs;
    std::vector<std::pair<std::size_t, std::size_t>> job_targets;  // row in rows_ and constant of each derivative
    for (std::size_t f = 0; f < families_.size(); ++f)
      for (const std::size_t row : rows_to_fit(f)) {
        const auto found = catalog_runs_.find({f, row});
        if (found == catalog_runs_.end() || !found->second.refused.empty()) continue;
        const RunPrediction& run = found->second;
        rows_.push_back({f, log_error(run), std::vector<double>(constants_.size(), 0)});
        for (std::size_t k = 0; k < constants_.size(); ++k) {
          if (!reads(entries_of(run), constants_[k].first())) continue;
          job_targets.emplace_back(rows_.size() - 1, k);
          jobs.push_back({f, row, constants_[k].trials(constants_[k].step())});
          if (removes) jobs.push_back({f, row, constants_[k].removal()});
        }
      }
    const std::vector<RunPrediction> runs = predict_runs(families_, jobs, "runs with a constant changed");
    std::vector<double> products(constants_.size(), 0), squares(constants_.size(), 0);
    const std::size_t runs_per_job = removes ? 2 : 1;
    for (std::size_t i = 0; i < job_targets.size(); ++i) {
      const auto [row, k] = job_targets[i];
      for (std::size_t run = runs_per_job * i; run < runs_per_job * (i + 1); ++run)
        if (!runs[run].refused.empty())
          throw InternalError(fmt::format("{}: changed or left out: {}", constants_[k].name(), runs[run].refused));
      const double slope = (log_error(runs[runs_per_job * i]) - rows_[row].error) / constants_[k].step();
      rows_[row].slope[k] = slope;
      if (!removes) continue;
      products[k] += slope * (log_error(runs[2 * i + 1]) - rows_[row].error);
      squares[k] += slope * slope;
    }
    for (std::size_t k = 0; k < constants_.size(); ++k)
      removal_changes_.push_back(squares[k] > 0 ? products[k] / squares[k] : 0);
  }

  /// Returns true if the step time of any row (of this family, if there is one) depends on the constant.
  bool depends(std::size_t constant, std::optional<std::size_t> family = std::nullopt) const {
    return std::ranges::any_of(rows_, [&](const ConstantRow& row) {
      return (!family || row.family == *family) && std::abs(row.slope[constant]) > kLeastSlope;
    });
  }

  /// Returns the rows of other families with the slopes of these constants. A row that depends on none is left out.
  std::vector<ConstantRow> rows_of_others(std::size_t family, const std::vector<std::size_t>& constants) const {
    std::vector<ConstantRow> rows;
    for (const ConstantRow& row : rows_) {
      if (row.family == family) continue;
      ConstantRow part{row.family, row.error, {}};
      for (const std::size_t k : constants) part.slope.push_back(row.slope[k]);
      if (std::ranges::any_of(part.slope, [](double slope) { return std::abs(slope) > kLeastSlope; }))
        rows.push_back(std::move(part));
    }
    return rows;
  }

  /// Refits the constants of a family without its runs.
  TriedFamily refit_without(std::size_t f) const {
    std::vector<std::size_t> dependent;
    std::vector<double> removal_changes;
    for (std::size_t k = 0; k < constants_.size(); ++k)
      if (depends(k, f)) dependent.push_back(k), removal_changes.push_back(removal_changes_[k]);
    const std::vector<ConstantChange> changes = refit_constants(removal_changes, rows_of_others(f, dependent));
    TriedFamily result{f};
    for (std::size_t i = 0; i < dependent.size(); ++i) {
      const TriedConstant& constant = constants_[dependent[i]];
      const double log = constant.limit_change(changes[i].log);
      result.add(changes[i].is_determined ? constant.trials(log) : constant.removal());
      result.add(constant, changes[i].is_determined ? std::optional(log) : std::nullopt);
    }
    return result;
  }

  /// Returns the mean over the families of the mean |predicted / measured - 1| of their rows, by linearized errors.
  double error_after(const std::vector<double>& change) const {
    std::vector<double> sums(families_.size(), 0), counts(families_.size(), 0);
    for (const ConstantRow& row : rows_) {
      double error = row.error;
      for (std::size_t k = 0; k < change.size(); ++k) error += row.slope[k] * change[k];
      sums[row.family] += std::abs(std::expm1(error));
      counts[row.family] += 1;
    }
    double mean = 0;
    for (std::size_t f = 0; f < sums.size(); ++f) mean += counts[f] > 0 ? sums[f] / counts[f] : 0;
    return mean / static_cast<double>(families_.size());
  }

  /// Finds the constants that minimize `error_after`.
  TriedFamily nearest_to_all() const {
    std::vector<double> changes(constants_.size(), 0);
    const auto limit_changes = [&] {
      std::vector<double> limited_changes;
      for (std::size_t k = 0; k < changes.size(); ++k)
        limited_changes.push_back(constants_[k].limit_change(std::clamp(changes[k], -kFarthest, kFarthest)));
      return limited_changes;
    };
    pattern_search(changes, [&] { return error_after(limit_changes()); });
    const std::vector<double> best_changes = limit_changes();
    TriedFamily result;
    for (std::size_t k = 0; k < constants_.size(); ++k) {
      result.add(constants_[k], depends(k) ? std::optional(best_changes[k]) : std::nullopt);
      if (depends(k)) result.add(constants_[k].trials(best_changes[k]));
    }
    return result;
  }

  std::vector<RefittedFamily> without_runs(const std::vector<TriedFamily>& tried_families) const {
    std::vector<RefittedFamily> all;
    for (const TriedFamily& family : tried_families) {
      const FamilyPrediction no_runs{families_[family.family], {}};
      all.push_back({no_runs, no_runs, family.constants});
    }
    return all;
  }

  std::vector<RefittedFamily> predict_again(const std::vector<TriedFamily>& tried_families,
                                            const std::string& what) const {
    std::vector<RunOfFamily> jobs;
    for (const TriedFamily& family : tried_families)
      for (std::size_t row = 0; row < families_[family.family].ids.size(); ++row)
        jobs.push_back({family.family, row, family.trials});
    std::vector<RunPrediction> runs = predict_runs(families_, jobs, what);
    std::vector<RefittedFamily> all = without_runs(tried_families);
    for (std::size_t i = 0, family_index = 0; i < jobs.size(); ++i) {
      if (i > 0 && jobs[i].row == 0) ++family_index;
      all[family_index].now.runs.push_back(catalog_runs_.at({jobs[i].family, jobs[i].row}));
      all[family_index].refitted.runs.push_back(std::move(runs[i]));
    }
    return all;
  }
};

}  // namespace

std::vector<RefittedFamily> leave_out_each(const std::vector<MeasuredFamily>& families, const LeftOutOptions& options) {
  return Refitting(families, options, true).without_each();
}

std::vector<RefittedFamily> predict_unfitted(const std::vector<MeasuredFamily>& families) {
  std::vector<RefittedFamily> all;
  for (const FamilyPrediction& family : predict_families(families, nullptr, true)) all.push_back({family, family, {}});
  return all;
}

std::vector<RefittedFamily> refit_to_all(const std::vector<MeasuredFamily>& families) {
  LeftOutOptions options;
  options.rows_of_family = 40;  // the default of 8 is too few for a family of 720 rows
  return Refitting(families, options, false).to_all();
}

std::string publisher_of(const std::string& source) {
  std::string word = source.substr(0, source.find_first_of(" ,;:(@"));
  word.erase(0, word.rfind('/') + 1);
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

std::vector<LeftOutStep> left_out_steps(const std::string& set, const std::vector<RefittedFamily>& families) {
  std::vector<LeftOutStep> rows;
  for (const RefittedFamily& family : families)
    for (std::size_t row = 0; row < family.now.runs.size(); ++row) {
      const RunPrediction &fitted = family.now.runs[row], &left_out = family.refitted.runs[row];
      if (!fitted.refused.empty() || !left_out.refused.empty() || !fitted.doubt.exists()) continue;
      if (!fitted.measured.is_given()) continue;
      rows.push_back({set, family.now.name, fitted.id, publisher_of(family.now.source), left_out.profile,
                      log_error(fitted), log_error(left_out)});
      rows.back().profile.path = fitted.profile.path;
    }
  return rows;
}

}  // namespace trainyard

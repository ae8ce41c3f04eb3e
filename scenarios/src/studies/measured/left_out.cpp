#include "scenarios/src/studies/measured/left_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "models/fitted/fitting.hpp"
#include "scenarios/src/studies/measured/constant_refit.hpp"
#include "scenarios/src/studies/measured/fitted_constants.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr double kTrialStep = 1.1;  // by which a constant is changed for its derivative
constexpr double kFarthest = 0.08;  // a logarithm changes by no more, in which step times follow their derivatives
constexpr double kTold = 1e-3;      // an error moves by so much, over the change, where a row depends on a constant

constexpr double kAnyNumber = 1e9;

/// What the readers of entries take.
struct ReaderBounds {
  const char* key;  ///< ends so
  double least = 0, most = kAnyNumber;
};
constexpr ReaderBounds kReaderBounds[] = {{"sustained_clock", 0.05, 1},
                                          {"gemm.sustained", 0.05, 1},
                                          {"gemm.fp8", 0.05, 2},
                                          {"user_buffers.overlapped", 0.0, 1},
                                          {"user_buffers.overlapped_fp8", 0.0, 1},
                                          {".forward", 0.05, 1},
                                          {".backward", 0.05, 1},
                                          {"slowdowns.overlapped", 1}};

double number_of(const std::string& figure) { return std::strtod(figure.c_str(), nullptr); }

/// "50 us" times that, in its unit.
std::string scaled(const std::string& figure, double factor) {
  char* unit = nullptr;
  const double number = std::strtod(figure.c_str(), &unit);
  return fmt::format("{:.4g}{}", number * factor, unit);
}

/// One constant, or the forward and backward rates of attention on one architecture, which only go together: an entry that
/// lacks one of them lacks both.
struct TriedConstant {
  std::vector<FittedConstant> parts;  ///< the larger first

  const FittedConstant& first() const { return parts.front(); }
  /// The map that holds it.
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
    for (const FittedConstant& part : parts) all.push_back(scaled(part.value, std::exp(log)));
    std::ranges::sort(all, std::greater<>());
    return fmt::format("{}", fmt::join(all, ", "));
  }
  /// As near to the change as the readers take.
  double within_bounds(double log) const {
    ReaderBounds bounds{""};
    for (const ReaderBounds& some : kReaderBounds)
      if (first().key.ends_with(some.key)) bounds = some;
    const double now = number_of(first().value);
    if (bounds.least > 0) log = std::max(log, std::log(bounds.least / now));
    return bounds.most < kAnyNumber ? std::min(log, std::log(bounds.most / now)) : log;
  }
  /// Upwards, or downwards where it is as large as can be.
  double step() const {
    const double up = std::log(kTrialStep);
    return within_bounds(up) < up ? -up : up;
  }
  std::vector<FigureTrial> trials(double log) const {
    std::vector<FigureTrial> all;
    for (const FittedConstant& part : parts)
      for (FigureTrial& trial : part.trials(scaled(part.value, std::exp(log)))) all.push_back(std::move(trial));
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
    TriedConstant& tried = pair == all.end() ? all.emplace_back() : *pair;
    tried.parts.push_back(std::move(constant));
    std::ranges::stable_sort(tried.parts, std::greater<>(), [](const auto& part) { return number_of(part.value); });
  }
  return all;
}

double log_error(const RunPrediction& run) { return std::log(run.step_time / run.measured.step_time.value); }

/// Rows of a family, spread evenly over it.
std::vector<std::size_t> some_rows(std::size_t rows, int wanted) {
  const std::size_t count = std::min(rows, static_cast<std::size_t>(std::max(1, wanted)));
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back((2 * i + 1) * rows / (2 * count));
  return some;
}

/// Constants that are fitted again, without each family in turn or to all of them.
class Refitting {
 public:
  /// `removes`: it is found, too, by how much constants would have to change to do what leaving them out does.
  Refitting(const std::vector<MeasuredFamily>& families, const LeftOutOptions& options, bool removes)
      : families_(families), options_(options) {
    std::vector<RunOfFamily> jobs;
    for (std::size_t f = 0; f < families_.size(); ++f) {
      const std::size_t all = families_[f].ids.size();
      for (const std::size_t row : left_out(f) ? some_rows(all, static_cast<int>(all)) : rows_to_fit(f))
        jobs.push_back({f, row});
    }
    std::vector<RunPrediction> runs = predict_runs(families_, jobs, "runs as the catalog has them");
    for (std::size_t i = 0; i < jobs.size(); ++i) now_[{jobs[i].family, jobs[i].row}] = std::move(runs[i]);
    for (TriedConstant& constant : constants_of_runs())
      if (std::ranges::any_of(now_, [&](const auto& run) {
            return left_out(run.first.first) && run.second.refused.empty() && reads(run.second, constant.first());
          }))
        constants_.push_back(std::move(constant));
    differentiate(removes);
  }

  std::vector<RefittedFamily> without_each() const {
    std::vector<TriedFamily> tried;
    for (std::size_t f = 0; f < families_.size(); ++f)
      if (left_out(f)) tried.push_back(refit_without(f));
    return predict_again(tried, "runs left out of the fit");
  }

  std::vector<RefittedFamily> to_all() const {
    const TriedFamily nearest = nearest_to_all();
    std::vector<TriedFamily> tried(families_.size(), nearest);
    for (std::size_t f = 0; f < families_.size(); ++f) tried[f].family = f;
    return predict_again(tried, "runs by constants fitted again");
  }

 private:
  /// What is tried for a family.
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
  std::map<std::pair<std::size_t, std::size_t>, RunPrediction> now_;  // by family and row
  std::vector<TriedConstant> constants_;
  std::vector<ConstantRow> rows_;  // of all families, with all constants
  std::vector<double> without_;    // changes of the constants' logarithms that do what leaving them out does
  std::map<std::pair<std::string, std::string>, std::vector<std::string>>
      chains_;  // entries by kind and name, with bases

  bool left_out(std::size_t family) const {
    const std::vector<std::string>& only = options_.only;
    return only.empty() || std::ranges::count(only, families_[family].name) > 0;
  }
  std::vector<std::size_t> rows_to_fit(std::size_t family) const {
    return some_rows(families_[family].ids.size(), options_.rows_of_family);
  }

  /// Does a run read an entry that states the constant?
  bool reads(const RunPrediction& run, const FittedConstant& constant) {
    const std::string& name = constant.kind == "gpu"     ? run.trait(StepTrait::gpu)
                              : constant.kind == "stack" ? run.trait(StepTrait::stack)
                                                         : run.attention;
    auto [at, fresh] = chains_.try_emplace({constant.kind, name});
    if (fresh) at->second = entry_with_bases(constant.kind, name);
    // A chip or stack of the family's own lies on one that is not known here.
    if (at->second.empty()) return !name.empty();
    return std::ranges::any_of(
        at->second, [&](const std::string& entry) { return std::ranges::count(constant.entries, entry) > 0; });
  }

  void differentiate(bool removes) {
    std::vector<RunOfFamily> jobs;
    std::vector<std::pair<std::size_t, std::size_t>> what;  // row here, constant
    for (std::size_t f = 0; f < families_.size(); ++f)
      for (const std::size_t row : rows_to_fit(f)) {
        const RunPrediction& run = now_.at({f, row});
        if (!run.refused.empty()) continue;
        rows_.push_back({f, log_error(run), std::vector<double>(constants_.size(), 0)});
        for (std::size_t k = 0; k < constants_.size(); ++k) {
          if (!reads(run, constants_[k].first())) continue;
          what.emplace_back(rows_.size() - 1, k);
          jobs.push_back({f, row, constants_[k].trials(constants_[k].step())});
          if (removes) jobs.push_back({f, row, constants_[k].removal()});
        }
      }
    const std::vector<RunPrediction> runs = predict_runs(families_, jobs, "runs with a constant changed");
    std::vector<double> products(constants_.size(), 0), squares(constants_.size(), 0);
    const std::size_t each = removes ? 2 : 1;
    for (std::size_t i = 0; i < what.size(); ++i) {
      const auto [row, k] = what[i];
      for (std::size_t run = each * i; run < each * (i + 1); ++run)
        if (!runs[run].refused.empty())
          throw InternalError(fmt::format("{}: changed or left out: {}", constants_[k].name(), runs[run].refused));
      const double slope = (log_error(runs[each * i]) - rows_[row].error) / constants_[k].step();
      rows_[row].slope[k] = slope;
      if (!removes) continue;
      products[k] += slope * (log_error(runs[2 * i + 1]) - rows_[row].error);
      squares[k] += slope * slope;
    }
    for (std::size_t k = 0; k < constants_.size(); ++k)
      without_.push_back(squares[k] > 0 ? products[k] / squares[k] : 0);
  }

  /// Do step times (of that family) follow the constant?
  bool depends(std::size_t constant, std::optional<std::size_t> family = std::nullopt) const {
    return std::ranges::any_of(rows_, [&](const ConstantRow& row) {
      return (!family || row.family == *family) && std::abs(row.slope[constant]) > kTold;
    });
  }

  /// Rows of other families, by these constants alone; those that follow none of them tell nothing.
  std::vector<ConstantRow> rows_but(std::size_t family, const std::vector<std::size_t>& constants) const {
    std::vector<ConstantRow> rows;
    for (const ConstantRow& row : rows_) {
      if (row.family == family) continue;
      ConstantRow part{row.family, row.error, {}};
      for (const std::size_t k : constants) part.slope.push_back(row.slope[k]);
      if (std::ranges::any_of(part.slope, [](double slope) { return std::abs(slope) > kTold; }))
        rows.push_back(std::move(part));
    }
    return rows;
  }

  /// Constants of a family without its runs.
  TriedFamily refit_without(std::size_t f) const {
    std::vector<std::size_t> own;
    std::vector<double> without;
    for (std::size_t k = 0; k < constants_.size(); ++k)
      if (depends(k, f)) own.push_back(k), without.push_back(without_[k]);
    const std::vector<ConstantChange> changes = refit_constants(without, rows_but(f, own));
    TriedFamily tried{f};
    for (std::size_t i = 0; i < own.size(); ++i) {
      const TriedConstant& constant = constants_[own[i]];
      const double log = constant.within_bounds(changes[i].log);
      tried.add(changes[i].told ? constant.trials(log) : constant.removal());
      tried.add(constant, changes[i].told ? std::optional(log) : std::nullopt);
    }
    return tried;
  }

  /// Mean over the families, each once, of their rows' |predicted / measured - 1|, as the derivatives say.
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

  /// The constants that bring all rows nearest.
  TriedFamily nearest_to_all() const {
    std::vector<double> at(constants_.size(), 0);
    const auto change = [&] {
      std::vector<double> within;
      for (std::size_t k = 0; k < at.size(); ++k)
        within.push_back(constants_[k].within_bounds(std::clamp(at[k], -kFarthest, kFarthest)));
      return within;
    };
    pattern_search(at, [&] { return error_after(change()); });
    const std::vector<double> best = change();
    TriedFamily tried;
    for (std::size_t k = 0; k < constants_.size(); ++k) {
      tried.add(constants_[k], depends(k) ? std::optional(best[k]) : std::nullopt);
      if (depends(k)) tried.add(constants_[k].trials(best[k]));
    }
    return tried;
  }

  std::vector<RefittedFamily> predict_again(const std::vector<TriedFamily>& tried, const std::string& what) const {
    std::vector<RunOfFamily> jobs;
    for (const TriedFamily& of : tried)
      for (std::size_t row = 0; row < families_[of.family].ids.size(); ++row)
        jobs.push_back({of.family, row, of.trials});
    std::vector<RunPrediction> runs = predict_runs(families_, jobs, what);
    std::vector<RefittedFamily> all;
    for (const TriedFamily& of : tried) {
      const FamilyPrediction none{families_[of.family], {}};
      all.push_back({none, none, of.constants});
    }
    for (std::size_t i = 0, at = 0; i < jobs.size(); ++i) {
      if (i > 0 && jobs[i].row == 0) ++at;
      all[at].now.runs.push_back(now_.at({jobs[i].family, jobs[i].row}));
      all[at].again.runs.push_back(std::move(runs[i]));
    }
    return all;
  }
};

}  // namespace

std::vector<RefittedFamily> leave_out_each(const std::vector<MeasuredFamily>& families, const LeftOutOptions& options) {
  return Refitting(families, options, true).without_each();
}

std::vector<RefittedFamily> refit_to_all(const std::vector<MeasuredFamily>& families) {
  LeftOutOptions options;
  options.rows_of_family = 40;  // 8 of the 720 of a family are too few to fit to
  return Refitting(families, options, false).to_all();
}

std::vector<LeftOutErrors> errors_by_traits(const std::vector<RefittedFamily>& families) {
  std::vector<LeftOutErrors> all;
  for (const RefittedFamily& family : families) {
    std::map<StepTraits, LeftOutErrors> alike;
    for (std::size_t row = 0; row < family.now.runs.size(); ++row) {
      const RunPrediction &fitted = family.now.runs[row], &left_out = family.again.runs[row];
      if (!fitted.refused.empty() || !left_out.refused.empty()) continue;
      LeftOutErrors& errors = alike[fitted.traits];
      const double error = std::abs(std::expm1(log_error(left_out)));
      ++errors.steps;
      errors.fitted += std::abs(std::expm1(log_error(fitted)));
      errors.left_out += error;
      errors.worst = std::max(errors.worst, error);
    }
    for (auto& [traits, errors] : alike) {
      errors.family = family.now.name;
      errors.traits = traits;
      errors.fitted /= errors.steps;
      errors.left_out /= errors.steps;
      all.push_back(errors);
    }
  }
  return all;
}

}  // namespace trainyard

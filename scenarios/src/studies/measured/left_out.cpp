#include "scenarios/src/studies/measured/left_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "models/fitted/pattern_search.hpp"
#include "scenarios/src/studies/measured/constant_refit.hpp"
#include "scenarios/src/studies/measured/fitted_constants.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr double kTrialStep = 1.1;  // by which a constant is changed for its derivative
constexpr double kFarthest = 0.08;  // a logarithm changes by no more, in which step times follow their derivatives
constexpr double kTold = 1e-3;      // an error moves by so much, over the change, where a row depends on a constant

/// What the readers of entries take.
struct ReaderBounds {
  const char* key;  ///< ends so
  double least, most;
};
constexpr double kAnyNumber = 1e9;
constexpr ReaderBounds kReaderBounds[] = {{"sustained_clock", 0.05, 1},
                                          {"gemm.sustained", 0.05, 1},
                                          {"gemm.fp8", 0.05, 2},
                                          {"user_buffers.overlapped", 0.0, 1},
                                          {"user_buffers.overlapped_fp8", 0.0, 1},
                                          {".forward", 0.05, 1},
                                          {".backward", 0.05, 1},
                                          {"slowdowns.overlapped", 1, kAnyNumber}};

/// A figure and its unit: "50 us".
struct TriedFigure {
  double number = 0;
  std::string unit;

  explicit TriedFigure(const std::string& text) {
    char* end = nullptr;
    number = std::strtod(text.c_str(), &end);
    unit = end;
  }
  std::string times(double factor) const { return fmt::format("{:.4g}{}", number * factor, unit); }
};

/// One constant, or the forward and backward rates of attention on one architecture, which only go together: an entry that
/// lacks one of them lacks both.
class Tried {
 public:
  explicit Tried(FittedConstant first) : parts_{std::move(first)} {
    for (const ReaderBounds& bounds : kReaderBounds)
      if (key().ends_with(bounds.key)) bounds_ = &bounds;
  }
  void add(FittedConstant other) {
    if (TriedFigure(other.value).number > TriedFigure(parts_.front().value).number) std::swap(other, parts_.front());
    parts_.push_back(std::move(other));
  }
  bool joins(const FittedConstant& other) const {
    return other.kind == "attention" && kind() == "attention" && other.entries == parts_.front().entries &&
           owner(other.key) == owner(key());
  }
  const std::string& kind() const { return parts_.front().kind; }
  const std::string& key() const { return parts_.front().key; }
  const std::vector<std::string>& entries() const { return parts_.front().entries; }
  std::string name() const {
    return parts_.size() == 1 ? parts_.front().name()
                              : fmt::format("attention {}: {}", entries().front(), owner(key()));
  }
  std::string value(double log = 0) const {
    std::vector<std::string> all;
    for (const FittedConstant& part : parts_) all.push_back(TriedFigure(part.value).times(std::exp(log)));
    std::sort(all.begin(), all.end(), std::greater<>());
    return fmt::format("{}", fmt::join(all, ", "));
  }
  /// As near to the change as the readers take.
  double within_bounds(double log) const {
    if (!bounds_) return log;
    const double now = TriedFigure(parts_.front().value).number;
    if (bounds_->least > 0) log = std::max(log, std::log(bounds_->least / now));
    return std::min(log, std::log(bounds_->most / now));
  }
  /// Upwards, or downwards where it is as large as can be.
  double step() const {
    const double up = std::log(kTrialStep);
    return within_bounds(up) < up ? -up : up;
  }
  std::vector<FigureTrial> trials(double log) const {
    std::vector<FigureTrial> all;
    for (const FittedConstant& part : parts_)
      for (FigureTrial& trial : part.trials(TriedFigure(part.value).times(std::exp(log))))
        all.push_back(std::move(trial));
    return all;
  }
  std::vector<FigureTrial> removal() const {
    if (parts_.size() == 1) return parts_.front().trials("");
    std::vector<FigureTrial> all;
    for (const std::string& entry : entries()) all.push_back({kind(), entry, owner(key()), ""});
    return all;
  }

 private:
  std::vector<FittedConstant> parts_;
  const ReaderBounds* bounds_ = nullptr;

  static std::string owner(const std::string& key) { return key.substr(0, key.rfind('.')); }
};

std::vector<Tried> constants_of_runs() {
  std::vector<Tried> all;
  for (FittedConstant& constant : fitted_constants()) {
    if (constant.by_command || TriedFigure(constant.value).number == 0) continue;
    const auto pair = std::find_if(all.begin(), all.end(), [&](const Tried& t) { return t.joins(constant); });
    if (pair == all.end())
      all.emplace_back(std::move(constant));
    else
      pair->add(std::move(constant));
  }
  return all;
}

/// Does a run read an entry that states the constant?
class EntryReaders {
 public:
  bool reads(const RunPrediction& run, const Tried& constant) {
    const std::string& name = constant.kind() == "gpu"     ? run.gpu
                              : constant.kind() == "stack" ? run.stack
                                                           : run.attention;
    auto [at, fresh] = chains_.try_emplace({constant.kind(), name});
    if (fresh) at->second = entry_with_bases(constant.kind(), name);
    // A chip or stack of the family's own lies on one that is not known here.
    if (at->second.empty()) return !name.empty();
    return std::any_of(at->second.begin(), at->second.end(), [&](const std::string& entry) {
      return std::count(constant.entries().begin(), constant.entries().end(), entry) > 0;
    });
  }

 private:
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> chains_;
};

double log_error(const RunPrediction& run) { return std::log(run.step_time / run.measured_step_time); }

/// Rows of a family, spread evenly over it.
std::vector<std::size_t> some_rows(std::size_t rows, int wanted) {
  const std::size_t count = std::min(rows, static_cast<std::size_t>(std::max(1, wanted)));
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back((2 * i + 1) * rows / (2 * count));
  return some;
}

/// Families left out in turn.
class LeavingOut {
 public:
  LeavingOut(const std::vector<MeasuredFamily>& families, const LeftOutOptions& options)
      : families_(families), options_(options) {}

  std::vector<LeftOutFamily> run() {
    predict_as_is();
    choose_constants();
    differentiate(true);
    return predict_left_out();
  }

  RefittedFamilies refit_to_all() {
    predict_as_is();
    choose_constants();
    differentiate(false);
    RefittedFamilies all;
    const std::vector<FigureTrial> trials = nearest_to_all(all.constants);
    std::vector<RunOfFamily> jobs;
    for (std::size_t f = 0; f < families_.size(); ++f)
      for (std::size_t row = 0; row < families_[f].ids.size(); ++row) jobs.push_back({f, row, trials});
    const std::vector<RunPrediction> runs = predict_runs(families_, jobs, "runs by constants fitted again");
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].row == 0)
        for (std::vector<FamilyPrediction>* of : {&all.now, &all.again})
          of->push_back({families_[jobs[i].family].name, families_[jobs[i].family].limits, {}});
      all.now.back().runs.push_back(now_.at({jobs[i].family, jobs[i].row}));
      all.again.back().runs.push_back(runs[i]);
    }
    return all;
  }

 private:
  const std::vector<MeasuredFamily>& families_;
  const LeftOutOptions& options_;
  std::map<std::pair<std::size_t, std::size_t>, RunPrediction> now_;  // by family and row
  std::vector<Tried> constants_;
  std::vector<ConstantRow> rows_;  // of all families, with all constants
  std::vector<double> without_;    // changes of the constants' logarithms that do what leaving them out does

  bool left_out(std::size_t family) const {
    const std::vector<std::string>& only = options_.only;
    return only.empty() || std::find(only.begin(), only.end(), families_[family].name) != only.end();
  }
  std::vector<std::size_t> rows_to_fit(std::size_t family) const {
    return some_rows(families_[family].ids.size(), options_.rows_of_family);
  }

  void predict_as_is() {
    std::vector<RunOfFamily> jobs;
    for (std::size_t f = 0; f < families_.size(); ++f) {
      const std::size_t all = families_[f].ids.size();
      for (const std::size_t row : left_out(f) ? some_rows(all, static_cast<int>(all)) : rows_to_fit(f))
        jobs.push_back({f, row});
    }
    std::vector<RunPrediction> runs = predict_runs(families_, jobs, "runs as the catalog has them");
    for (std::size_t i = 0; i < jobs.size(); ++i) now_[{jobs[i].family, jobs[i].row}] = std::move(runs[i]);
  }

  /// Those of families that are left out.
  void choose_constants() {
    EntryReaders readers;
    for (Tried& constant : constants_of_runs())
      if (std::any_of(now_.begin(), now_.end(), [&](const auto& run) {
            return left_out(run.first.first) && run.second.refused.empty() && readers.reads(run.second, constant);
          }))
        constants_.push_back(std::move(constant));
  }

  /// removed: besides, by how much the constants would have to change to do what leaving them out does.
  void differentiate(bool removed) {
    EntryReaders readers;
    std::vector<RunOfFamily> jobs;
    std::vector<std::pair<std::size_t, std::size_t>> what;  // row here, constant
    for (std::size_t f = 0; f < families_.size(); ++f)
      for (const std::size_t row : rows_to_fit(f)) {
        const RunPrediction& run = now_.at({f, row});
        if (!run.refused.empty()) continue;
        const std::vector<double> none(constants_.size(), 0);
        rows_.push_back({f, log_error(run), none});
        for (std::size_t k = 0; k < constants_.size(); ++k) {
          if (!readers.reads(run, constants_[k])) continue;
          what.emplace_back(rows_.size() - 1, k);
          jobs.push_back({f, row, constants_[k].trials(constants_[k].step())});
          if (removed) jobs.push_back({f, row, constants_[k].removal()});
        }
      }
    const std::vector<RunPrediction> runs = predict_runs(families_, jobs, "runs with a constant changed");
    std::vector<double> products(constants_.size(), 0), squares(constants_.size(), 0);
    const std::size_t each = removed ? 2 : 1;
    for (std::size_t i = 0; i < what.size(); ++i) {
      const auto [row, k] = what[i];
      for (std::size_t run = each * i; run < each * (i + 1); ++run)
        if (!runs[run].refused.empty())
          throw InternalError(fmt::format("{}: changed or left out: {}", constants_[k].name(), runs[run].refused));
      const double slope = (log_error(runs[each * i]) - rows_[row].error) / constants_[k].step();
      rows_[row].slope[k] = slope;
      if (!removed) continue;
      products[k] += slope * (log_error(runs[2 * i + 1]) - rows_[row].error);
      squares[k] += slope * slope;
    }
    for (std::size_t k = 0; k < constants_.size(); ++k)
      without_.push_back(squares[k] > 0 ? products[k] / squares[k] : 0);
  }

  /// Do the family's step times follow the constant?
  bool depends(std::size_t family, std::size_t constant) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const ConstantRow& row) {
      return row.family == family && std::abs(row.slope[constant]) > kTold;
    });
  }

  /// Of other families, by these constants alone; those that follow none of them tell nothing.
  std::vector<ConstantRow> rows_but(std::size_t family, const std::vector<std::size_t>& constants) const {
    std::vector<ConstantRow> rows;
    for (const ConstantRow& row : rows_) {
      if (row.family == family) continue;
      ConstantRow part{row.family, row.error, {}};
      for (const std::size_t k : constants) part.slope.push_back(row.slope[k]);
      if (std::any_of(part.slope.begin(), part.slope.end(), [](double slope) { return std::abs(slope) > kTold; }))
        rows.push_back(std::move(part));
    }
    return rows;
  }

  /// Constants of a family without its runs, and the figures that say so.
  std::vector<FigureTrial> refit(std::size_t f, std::vector<RefittedConstant>& told) const {
    std::vector<std::size_t> own;
    for (std::size_t k = 0; k < constants_.size(); ++k)
      if (depends(f, k)) own.push_back(k);
    std::vector<double> without;
    for (const std::size_t k : own) without.push_back(without_[k]);
    const std::vector<ConstantChange> changes = refit_constants(without, rows_but(f, own));
    std::vector<FigureTrial> trials;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Tried& constant = constants_[own[i]];
      const double log = constant.within_bounds(changes[i].log);
      for (FigureTrial& trial : changes[i].told ? constant.trials(log) : constant.removal())
        trials.push_back(std::move(trial));
      told.push_back({constant.name(), constant.value(), changes[i].told ? constant.value(log) : ""});
    }
    return trials;
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

  /// The constants that bring all rows nearest, and the figures that say so.
  std::vector<FigureTrial> nearest_to_all(std::vector<RefittedConstant>& told) const {
    std::vector<double> at(constants_.size(), 0);
    const auto change = [&] {
      std::vector<double> within;
      for (std::size_t k = 0; k < at.size(); ++k)
        within.push_back(constants_[k].within_bounds(std::clamp(at[k], -kFarthest, kFarthest)));
      return within;
    };
    pattern_search(at, [&] { return error_after(change()); });
    const std::vector<double> best = change();
    std::vector<FigureTrial> trials;
    for (std::size_t k = 0; k < constants_.size(); ++k) {
      const bool is_told = std::any_of(rows_.begin(), rows_.end(),
                                       [k](const ConstantRow& row) { return std::abs(row.slope[k]) > kTold; });
      told.push_back({constants_[k].name(), constants_[k].value(), is_told ? constants_[k].value(best[k]) : ""});
      if (!is_told) continue;
      for (FigureTrial& trial : constants_[k].trials(best[k])) trials.push_back(std::move(trial));
    }
    return trials;
  }

  std::vector<LeftOutFamily> predict_left_out() const {
    std::vector<LeftOutFamily> all;
    std::vector<RunOfFamily> jobs;
    for (std::size_t f = 0; f < families_.size(); ++f) {
      if (!left_out(f)) continue;
      LeftOutFamily& family = all.emplace_back();
      family.in_sample.name = family.left_out.name = families_[f].name;
      family.in_sample.limits = family.left_out.limits = families_[f].limits;
      const std::vector<FigureTrial> trials = refit(f, family.constants);
      for (std::size_t row = 0; row < families_[f].ids.size(); ++row) {
        family.in_sample.runs.push_back(now_.at({f, row}));
        jobs.push_back({f, row, trials});
      }
    }
    const std::vector<RunPrediction> runs = predict_runs(families_, jobs, "runs left out of the fit");
    std::size_t next = 0;
    for (LeftOutFamily& family : all)
      for (std::size_t row = 0; row < family.in_sample.runs.size(); ++row) family.left_out.runs.push_back(runs[next++]);
    return all;
  }
};

}  // namespace

std::vector<LeftOutFamily> leave_out_each(const std::vector<MeasuredFamily>& families, const LeftOutOptions& options) {
  return LeavingOut(families, options).run();
}

std::vector<LeftOutErrors> errors_by_traits(const std::vector<LeftOutFamily>& families) {
  std::vector<LeftOutErrors> all;
  for (const LeftOutFamily& family : families) {
    std::map<StepTraits, LeftOutErrors> alike;
    for (std::size_t row = 0; row < family.in_sample.runs.size(); ++row) {
      const RunPrediction &fitted = family.in_sample.runs[row], &left_out = family.left_out.runs[row];
      if (!fitted.refused.empty() || !left_out.refused.empty()) continue;
      LeftOutErrors& errors = alike[fitted.traits];
      const double error = std::abs(std::expm1(log_error(left_out)));
      ++errors.steps;
      errors.fitted += std::abs(std::expm1(log_error(fitted)));
      errors.left_out += error;
      errors.worst = std::max(errors.worst, error);
    }
    for (auto& [traits, errors] : alike) {
      errors.family = family.in_sample.name;
      errors.traits = traits;
      errors.fitted /= errors.steps;
      errors.left_out /= errors.steps;
      all.push_back(errors);
    }
  }
  return all;
}

RefittedFamilies refit_to_all(const std::vector<MeasuredFamily>& families) {
  LeftOutOptions options;
  options.rows_of_family = 40;  // 8 of the 720 of a family are too few to fit to
  return LeavingOut(families, options).refit_to_all();
}

}  // namespace trainyard

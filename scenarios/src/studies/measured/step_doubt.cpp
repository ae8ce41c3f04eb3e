#include "scenarios/src/studies/measured/step_doubt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "models/fitted/fitting.hpp"
#include "models/fitted/measured_table.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/csv_cell.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr const char* kTable = "scenarios/measured/tables/step_doubt.csv";
/// Probabilities of the quantiles in the table. Quantiles between them are interpolated.
constexpr double kProbabilities[] = {0.5, 0.8, 0.95};
/// A stack that nobody measured may have a host that is this much slower than the slowest measured one.
constexpr double kSlowerHost = 1.5;
/// A larger error counts as this one: something else is wrong there, and other steps' intervals must not widen for it.
constexpr double kMostError = 0.5;
/// Beyond this distance a step is no more doubtful: the measured steps show no further growth of their errors.
constexpr double kMostDistance = 0.2;

// Subjects of terms: steps with the same one share the error of the term.
std::string gpu_subject(const StepProfile& p) { return gpu_of(p); }
std::string product_subject(const StepProfile& p) { return product_of(p); }
std::string network_subject(const StepProfile& p) { return network_of(p); }
std::string combination_subject(const StepProfile& p) {
  return fmt::format("{} {} {}", p.trait(StepTrait::stack), gpu_of(p), p.trait(StepTrait::precision));
}
/// Returns the letters with which the chip's name begins: one vendor's chips begin alike ("mi300x", "tpu-v5e").
std::string vendor_subject(const StepProfile& p) {
  const std::string& gpu = gpu_of(p);
  return gpu.substr(0, gpu.find_first_of("-0123456789"));
}
std::string mechanism_subject(const StepProfile& p) { return fmt::format("{}", fmt::join(p.unmeasured_parts, " ")); }

std::string quantile_name(double probability) { return fmt::format("quantile {:.2f}", probability); }

std::size_t place_of_term(std::string_view key) {
  const auto& terms = doubt_terms();
  const auto found = std::ranges::find(terms, key, [](const DoubtTerm& term) { return std::string_view(term.key); });
  return static_cast<std::size_t>(found - terms.begin());
}

/// A step of the fit: the amounts of its terms, its error and its weight.
struct FittedStep {
  std::vector<double> amounts;
  double error = 0;   ///< |ln(measured / predicted)| beyond what a slow host explains
  double weight = 1;  ///< weight in the sum over all steps
};

std::vector<double> amounts_of(const StepProfile& profile, const Experience& others) {
  std::vector<double> amounts;
  for (const DoubtTerm& term : doubt_terms()) amounts.push_back(term.amount(profile, others));
  return amounts;
}

double variance_of(const std::vector<double>& spreads, const std::vector<double>& amounts) {
  double variance = 0;
  for (std::size_t t = 0; t < spreads.size(); ++t) variance += std::pow(spreads[t] * amounts[t], 2);
  return variance;
}

/// Returns twice the negative logarithm of the likelihood of all errors and of the priors.
double misfit(const std::vector<FittedStep>& steps, const std::vector<double>& spreads) {
  double sum = 0;
  for (const FittedStep& step : steps) {
    const double variance = variance_of(spreads, step.amounts), error = std::min(kMostError, step.error);
    sum += step.weight * (std::log(variance) + error * error / variance);
  }
  for (std::size_t t = 0; t < spreads.size(); ++t) {
    const double variance = spreads[t] * spreads[t], prior = doubt_terms()[t].prior;
    sum += std::log(variance) + prior * prior / variance;
  }
  return sum;
}

/// Returns the spreads with the least misfit, by a search that starts at the priors.
std::vector<double> least_misfit(const std::vector<FittedStep>& steps) {
  std::vector<double> logs, spreads;
  for (const DoubtTerm& term : doubt_terms()) logs.push_back(std::log(term.prior));
  const auto update_spreads = [&] {
    spreads.clear();
    for (const double log : logs) spreads.push_back(std::exp(log));
  };
  pattern_search(logs, [&] {
    update_spreads();
    return misfit(steps, spreads);
  });
  update_spreads();
  return spreads;
}

/// Returns the error of a prediction beyond what a slow host explains.
double unexplained_error(const LeftOutStep& step, const Experience& others) {
  const double slower = -step.left_out;
  return slower < 0 ? -slower : std::max(0.0, slower - std::log(slow_host_factor(step.profile, others)));
}

}  // namespace

const std::vector<DoubtTerm>& doubt_terms() {
  using P = StepProfile;
  using E = Experience;
  static const std::vector<DoubtTerm> terms{
      {"any", 0.06, "the model itself, on steps like the measured ones", [](const P&, const E&) { return 1.0; },
       combination_subject},
      {"combination", 0.04, "this stack, GPU and precision were not measured together",
       [](const P& p, const E& e) { return e.has_combination(p) ? 0.0 : 1.0; }, combination_subject},
      {"stack", 0.05, "no step of this stack was measured on this kind of network, in any release",
       [](const P& p, const E& e) { return e.has_network_of_product(p) ? 0.0 : 1.0; }, product_subject},
      {"gpu", 0.04, "no step on this GPU was measured", [](const P& p, const E& e) { return e.has_gpu(p) ? 0.0 : 1.0; },
       gpu_subject},
      {"vendor", 0.12, "few measured steps are on other devices than NVIDIA's GPUs",
       [](const P& p, const E&) { return p.other_vendor ? 1.0 : 0.0; }, vendor_subject},
      {"experts", 0.15, "steps of mixtures of experts scatter more",
       [](const P& p, const E&) { return p.experts ? 1.0 : 0.0; }, network_subject},
      {"network", 0.05, "no step of this kind of network was measured",
       [](const P& p, const E& e) { return e.has_network(p) ? 0.0 : 1.0; }, network_subject},
      {"wide tensor", 0.10, "a tensor group crosses nodes, or its GPUs share no NVSwitch",
       [](const P& p, const E&) { return p.wide_tensor ? 1.0 : 0.0; }, gpu_subject},
      {"scale", 0.04,
       "more than twice the devices of any measured step of this stack, or of any stack if it was not measured",
       [](const P& p, const E& e) { return p.devices > 2 * e.most_devices(p) ? 1.0 : 0.0; }, product_subject},
      {"distance", 0.50,
       "its parts, its host's share and its devices differ from those of the measured steps of this stack",
       [](const P& p, const E& e) { return std::min(kMostDistance, e.distance(p)); }, product_subject},
      {"memory path", 0.10, "traffic of GPU memory, by its share of the critical path",
       [](const P& p, const E&) { return p.on_path(PathPart::memory); }, combination_subject},
      {"node path", 0.15, "exchanges in a node, by their share of the critical path",
       [](const P& p, const E&) { return p.on_path(PathPart::node); }, combination_subject},
      {"network path", 0.15, "exchanges between nodes, by their share of the critical path",
       [](const P& p, const E&) { return p.on_path(PathPart::network); }, combination_subject},
      {"mechanism", 0.10,
       "no measured step has this offload, compression, mechanism or 4-bit or 6-bit format, unlike nodes, or an "
       "announced chip",
       [](const P& p, const E&) { return p.unmeasured_parts.empty() ? 0.0 : 1.0; }, mechanism_subject},
  };
  return terms;
}

std::map<std::string, std::vector<LeftOutStep>> thinned_families(const std::vector<LeftOutStep>& steps) {
  std::map<std::string, std::vector<LeftOutStep>> families;
  for (const LeftOutStep& step : steps) families[step.family].push_back(step);
  for (auto& [name, rows] : families) {
    if (rows.size() <= kMostOfFamily) continue;
    std::vector<LeftOutStep> spread_rows;
    for (std::size_t i = 0; i < kMostOfFamily; ++i) spread_rows.push_back(rows[i * rows.size() / kMostOfFamily]);
    rows = std::move(spread_rows);
  }
  return families;
}

double slow_host_factor(const StepProfile& profile, const Experience& others) {
  return others.shows_host(profile) ? 1 : std::max(1.0, kSlowerHost * profile.slow_host);
}

DoubtModel DoubtModel::fit(const std::vector<LeftOutStep>& all, const std::string& family) {
  std::vector<FittedStep> steps;
  const auto families = thinned_families(all);
  std::map<std::string, double> families_of_sources;
  for (const auto& [name, rows] : families)
    if (name != family) ++families_of_sources[rows.front().source];
  for (const auto& [name, rows] : families) {
    if (name == family) continue;
    const Experience others(all, name);
    const double sisters = families_of_sources.at(rows.front().source);
    const double weight = 1 / std::sqrt(static_cast<double>(rows.size())) / std::pow(sisters, 0.25);
    for (const LeftOutStep& row : rows)
      steps.push_back({amounts_of(row.profile, others), unexplained_error(row, others), weight});
  }
  DoubtModel model;
  model.spreads_ = least_misfit(steps);
  std::vector<WeightedValue> errors;
  for (const FittedStep& step : steps)
    errors.push_back({step.error / std::sqrt(variance_of(model.spreads_, step.amounts)), step.weight});
  for (const double probability : kProbabilities) model.quantiles_.push_back(weighted_quantile(errors, probability));
  return model;
}

const DoubtModel& DoubtModel::shipped() {
  static const DoubtModel model = [] {
    MeasuredTable table(shipped_file(kTable), {"what", "value"});
    std::map<std::string, double> values;
    while (table.next()) values[table.text("what")] = table.positive("value");
    DoubtModel result;
    for (const DoubtTerm& term : doubt_terms()) result.spreads_.push_back(values.at(term.key));
    for (const double probability : kProbabilities) result.quantiles_.push_back(values.at(quantile_name(probability)));
    return result;
  }();
  return model;
}

std::string DoubtModel::csv() const {
  std::string text =
      "# How far measured steps are from predictions that were fitted without their family: the spread of each term, "
      "and\n# quantiles of |ln(measured / predicted)| in units of the spread. Repeat: trainyard validate coverage "
      "--csv FILE\nwhat,value,words\n";
  for (std::size_t t = 0; t < spreads_.size(); ++t)
    text +=
        fmt::format("{},{:.4f},{}\n", csv_cell(doubt_terms()[t].key), spreads_[t], csv_cell(doubt_terms()[t].words));
  for (std::size_t q = 0; q < quantiles_.size(); ++q)
    text += fmt::format("{},{:.4f},\n", quantile_name(kProbabilities[q]), quantiles_[q]);
  return text;
}

std::map<std::string, double> StepDoubt::figures() const {
  std::map<std::string, double> all{{"spread", spread}, {"slow_host", slow_host}, {"tensor", tensor}};
  for (const auto& [name, term] : terms) all["term " + name] = term;
  if (announced(1)) all.insert({{"fast", fast}, {"slow", slow}});
  return all;
}

void StepDoubt::take_announced(double step_time, const std::optional<std::array<double, 2>>& times) {
  if (!times || step_time <= 0) return;
  fast = times->front() / step_time;
  slow = times->back() / step_time;
}

std::optional<std::array<double, 2>> StepDoubt::announced(double step_time) const {
  if (fast == 1 && slow == 1) return std::nullopt;
  return std::array{fast * step_time, slow * step_time};
}

StepDoubt StepDoubt::from_figures(const std::map<std::string, double>& figures) {
  constexpr std::string_view kTerm = "term ";
  StepDoubt doubt{figures.at("spread"), figures.at("slow_host"), static_cast<int>(figures.at("tensor"))};
  for (const auto& [name, figure] : figures)
    if (name.starts_with(kTerm)) doubt.terms[name.substr(kTerm.size())] = figure;
  if (figures.contains("fast")) doubt.take_announced(1, {{figures.at("fast"), figures.at("slow")}});
  return doubt;
}

double DoubtModel::spread_of(std::string_view term) const { return spreads_.at(place_of_term(term)); }

DoubtModel DoubtModel::with_anchor(const SoftwareStack::Anchor& anchor) const {
  DoubtModel model = *this;
  model.spreads_[place_of_term("any")] = anchor.spread;
  return model;
}

double DoubtModel::quantile(double probability) const {
  double p0 = 0, z0 = 0;
  for (std::size_t q = 0; q < quantiles_.size(); ++q) {
    const double p1 = kProbabilities[q], z1 = quantiles_[q];
    if (probability <= p1) return z0 + (z1 - z0) * (probability - p0) / (p1 - p0);
    p0 = p1, z0 = z1;
  }
  // The tail beyond the last quantile falls exponentially, as fast as between the last two.
  const std::size_t last = quantiles_.size() - 1;
  const double rise =
      (quantiles_[last] - quantiles_[last - 1]) / std::log((1 - kProbabilities[last - 1]) / (1 - kProbabilities[last]));
  return quantiles_[last] + rise * std::log((1 - kProbabilities[last]) / (1 - probability));
}

StepDoubt DoubtModel::doubt(const StepProfile& profile, const Experience& others) const {
  const std::vector<double> amounts = amounts_of(profile, others);
  StepDoubt doubt{std::sqrt(variance_of(spreads_, amounts)), slow_host_factor(profile, others)};
  for (std::size_t t = 0; t < amounts.size(); ++t)
    if (amounts[t] > 0)
      doubt.terms[fmt::format("{} {}", doubt_terms()[t].key, doubt_terms()[t].subject(profile))] =
          spreads_[t] * amounts[t];
  return doubt;
}

StepRange DoubtModel::range(const StepDoubt& doubt, double probability) const {
  const double deviation = quantile(probability) * doubt.spread;
  return {std::exp(-deviation) * doubt.fast, std::exp(deviation) * doubt.slow_host * doubt.slow};
}

double DoubtModel::probability_within(const StepDoubt& doubt, double factor) const {
  const double deviation = std::log(factor / doubt.slow_host / doubt.slow) / doubt.spread, z = std::abs(deviation);
  // `quantile` rises with the probability, so bisection inverts it.
  double low = 0, high = 1 - 1e-9;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (quantile(middle) < z ? low : high) = middle;
  }
  return 0.5 + (deviation < 0 ? -low : low) / 2;
}

double DoubtModel::expected_error(const StepDoubt& doubt) const {
  constexpr int kIntervals = 400;  // their half widths at the middles of as many equal steps of probability are summed
  double sum = 0;
  for (int i = 0; i < kIntervals; ++i) sum += range(doubt, (i + 0.5) / kIntervals).half_width();
  return sum / kIntervals;
}

std::vector<DoubtPart> DoubtModel::parts(const StepProfile& profile, const Experience& others) const {
  const std::vector<double> amounts = amounts_of(profile, others);
  const StepDoubt total_doubt = doubt(profile, others);
  const auto half_width = [this](double variance, double slow_host) {
    return range({std::sqrt(std::max(0.0, variance)), slow_host}, kLikely).half_width();
  };
  const double variance = total_doubt.spread * total_doubt.spread;
  std::vector<DoubtPart> parts;
  for (std::size_t t = 0; t < amounts.size(); ++t)
    if (const double part = std::pow(spreads_[t] * amounts[t], 2); part > 0)
      parts.push_back(
          {doubt_terms()[t].words, half_width(part, 1), half_width(variance - part, total_doubt.slow_host)});
  if (total_doubt.slow_host > 1)
    parts.push_back({"no measured step shows how fast this stack's host launches kernels",
                     half_width(0, total_doubt.slow_host), half_width(variance, 1)});
  sort_stably(parts, [](const auto& a, const auto& b) { return a.width_alone > b.width_alone; });
  return parts;
}

const Experience& whole_experience() {
  static const Experience all(kept_left_out_steps());
  return all;
}

DoubtBasis::DoubtBasis(StepProfile step, const SoftwareStack::Anchor& anchor) : profile(std::move(step)) {
  if (!anchor.exists()) return;
  model = model.with_anchor(anchor);
  anchored_ = whole_experience();
  anchored_->add_anchor(anchor);
  for (std::size_t part = 0; part < profile.path.size(); ++part)
    profile.path[part] = std::max(0.0, profile.path[part] - anchor.path[part]);
  if (anchor.wide_tensor) profile.wide_tensor = false;
  if (anchor.gpu == gpu_of(profile)) profile.other_vendor = false;
  if (std::ranges::find(anchor.networks, network_of(profile)) != anchor.networks.end()) profile.experts = false;
  for (const std::string& feature : anchor.features) profile.unmeasured_parts.erase(feature);
}

const Experience& DoubtBasis::experience() const { return anchored_ ? *anchored_ : whole_experience(); }
StepDoubt DoubtBasis::doubt() const {
  StepDoubt doubt = model.doubt(profile, experience());
  if (!anchored_) return doubt;
  // An anchor removes the error that an anchored step would share with one of the catalog's stack.
  std::map<std::string, double> terms;
  for (const auto& [name, spread] : doubt.terms)
    terms[name.starts_with(kModelTerm) ? name + " anchored" : name] = spread;
  doubt.terms = std::move(terms);
  return doubt;
}
StepRange DoubtBasis::range() const { return model.range(doubt(), kLikely); }
std::vector<DoubtPart> DoubtBasis::parts() const { return model.parts(profile, experience()); }

std::string no_doubt_reason(const Scenario& s) {
  if (s.prescribed_step.exists()) return "the scenario states its step time";
  if (s.measured.is_given()) return "the scenario states the compute time of a step (plan.measured_step)";
  if (s.plan.inference) return "only training steps were measured";
  if (s.software.name == "plain") return "plain is an ideal stack, which nobody can measure; name one in software";
  return "";
}

double drawn_deviation(const Result& r) {
  constexpr double kNormal80 = 1.2816, kNormal95 = 1.96;  // quantiles of intervals of 80 and 95 %
  if (!r.step_time_interval || r.step_time.value <= 0) return 0;
  return std::log1p(kNormal80 / kNormal95 * (*r.step_time_interval / r.step_time));
}

StepDoubt step_doubt(const Scenario& s, const Result& r) {
  if (!no_doubt_reason(s).empty()) {
    StepDoubt none;
    none.take_announced(r.step_time.value, r.announced_step_times);
    return none;
  }
  const DoubtBasis basis(profile_of(s, r), s.software.anchor);
  StepDoubt doubt = basis.doubt();
  // The errors that the answer states, of an estimate and of a mean of few drawn steps, count as one more doubt, whose
  // 80 % interval is that wide.
  const double likely = std::log(DoubtModel::shipped().range({1}, kLikely).high);
  const double estimate = std::hypot(std::log1p(r.estimate_error), drawn_deviation(r)) / likely;
  doubt.spread = std::hypot(doubt.spread, estimate);
  if (estimate > 0) doubt.terms[std::string(kEstimateTerm)] = estimate;
  doubt.tensor = s.plan.mesh.widest(Axis::tensor);
  doubt.take_announced(r.step_time.value, r.announced_step_times);
  return doubt;
}

std::optional<std::array<double, 2>> likely_step_times(double step_time, const StepDoubt& doubt) {
  if (!doubt.exists()) return std::nullopt;
  const StepRange range = DoubtModel::shipped().range(doubt, kLikely);
  return std::array{step_time * range.low, step_time * range.high};
}

}  // namespace trainyard

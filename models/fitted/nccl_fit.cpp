#include "models/fitted/nccl_fit.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "models/fitted/nccl_cost.hpp"
#include "models/reading/document_text.hpp"

namespace trainyard {
namespace {

const Node& value_of(const Node& node) {
  const Node* value = node.find("value");
  return value ? *value : node;
}

/// Reads a list of `count` quantities, one for each number of GPUs.
template <class Parse>
auto quantities(Fields& fields, const char* key, std::size_t count, Parse parse) {
  const Node& node = value_of(fields.required_child(key));
  const std::string path = fields.path(key);
  if (node.kind != Node::Kind::list || node.items.size() != count)
    fail(node.place, fmt::format("{}: expected a list of {}, one for each number of GPUs", path, count));
  std::vector<decltype(parse(std::string_view{}))> values;
  for (const Node& item : node.items) {
    try {
      values.push_back(parse(std::string_view(item.scalar)));
    } catch (const UserError& e) {
      fail(item.place, fmt::format("{}: {}", path, e.what()));
    }
    if (!(values.back().value >= 0) || values.back().value > 1e18)
      fail(item.place, fmt::format("{}: \"{}\" is out of range", path, item.scalar));
  }
  return values;
}

void read_protocols(Fields& fields, const char* key, std::vector<NcclCurve>& curves, NcclProtocol NcclCurve::*member) {
  fields.read_required_map(key, [&](Fields& protocol) {
    const auto startups = quantities(protocol, "startup", curves.size(), parse_seconds);
    const auto rates = quantities(protocol, "rate", curves.size(), parse_bandwidth);
    for (std::size_t i = 0; i < curves.size(); ++i) {
      if (rates[i].value <= 0) protocol.refuse("rate", "not greater than 0");
      curves[i].*member = {startups[i], rates[i]};
    }
  });
}

std::vector<NcclCurve> read_curves(Fields& fields) {
  const Node& gpus = value_of(fields.required_child("gpus"));
  const std::string path = fields.path("gpus");
  if (gpus.kind != Node::Kind::list || gpus.items.empty())
    fail(gpus.place, path + ": expected a list of numbers of GPUs, such as [2, 4, 8]");
  std::vector<NcclCurve> curves;
  for (const Node& item : gpus.items) {
    std::int64_t count = 0;
    try {
      count = parse_integer(item.scalar);
    } catch (const UserError& e) {
      fail(item.place, fmt::format("{}: {}", path, e.what()));
    }
    const std::int64_t least = curves.empty() ? 2 : curves.back().gpus + 1;
    if (count < least || count > 1'000'000)
      fail(item.place, fmt::format("{}: {}: expected {} or more, rising", path, count, least));
    curves.push_back({static_cast<int>(count), {}, {}, {}, {}});
  }
  read_protocols(fields, "ll", curves, &NcclCurve::ll);
  read_protocols(fields, "ll128", curves, &NcclCurve::ll128);
  read_protocols(fields, "simple", curves, &NcclCurve::simple);
  const auto until = quantities(fields, "ll128_until", curves.size(), parse_bytes);
  for (std::size_t i = 0; i < curves.size(); ++i) curves[i].ll128_until = until[i];
  return curves;
}

constexpr std::string_view kSource = "source: fit";

std::string protocol_text(const char* name, const std::vector<NcclCurve>& curves, NcclProtocol NcclCurve::*member) {
  std::vector<std::string> startups, rates;
  for (const NcclCurve& c : curves) {
    startups.push_back(fmt::format("{:.4g} us", (c.*member).startup.value * 1e6));
    rates.push_back(fmt::format("{:.4g} GB/s", (c.*member).rate.value * 1e-9));
  }
  return fmt::format("  {}:\n    startup: {{value: [{}], {}}}\n    rate: {{value: [{}], {}}}\n", name,
                     fmt::join(startups, ", "), kSource, fmt::join(rates, ", "), kSource);
}

std::string curves_text(NcclOperation operation, const std::vector<NcclCurve>& curves) {
  std::vector<std::string> gpus, until;
  for (const NcclCurve& c : curves) {
    gpus.push_back(fmt::format("{}", c.gpus));
    until.push_back(fmt::format("{:.0f} B", c.ll128_until.value));
  }
  return fmt::format("{}:\n  gpus: {{value: [{}], {}}}\n", name_of(operation), fmt::join(gpus, ", "), kSource) +
         protocol_text("ll", curves, &NcclCurve::ll) + protocol_text("ll128", curves, &NcclCurve::ll128) +
         fmt::format("  ll128_until: {{value: [{}], {}}}\n", fmt::join(until, ", "), kSource) +
         protocol_text("simple", curves, &NcclCurve::simple);
}

/// Source of the number of GPUs from which all-reduce uses the switch.
constexpr const char* kInSwitchSource =
    "nccl-tests of a B200 with NCCL 2.27.7 (ml-engineering, network/README.md, SHARP): NVLS by itself at 6, 7 and 8 "
    "GPUs, rings at 4 and 5; assumed of all GPUs whose switch can add";

/// NCCL sums in the switch from this many GPUs on. The entry names the source of this figure.
constexpr int kInSwitchFrom = 6;
constexpr std::size_t kFewestSizes = 3;
/// The fewest sizes to fit two and three protocols. Each protocol has two constants.
constexpr std::size_t kSizesForTwo = 5, kSizesForThree = 8;

/// A row for the search: the bytes sent in a ring, and those of the last protocol (through the switch if it sums).
struct CurveRow {
  Bytes size, ring, last;
  Seconds measured;
};

/// Logarithms of the start-up and of the seconds per byte of LL, of LL128, and of Simple or NVLS.
using CurveConstants = std::array<double, 6>;

struct FittedCurve {
  std::array<NcclProtocol, 3> protocols;
  Bytes until;
};

double curve_time(const std::array<double, 6>& c, const CurveRow& row, Bytes until) {
  const double last = c[4] + c[5] * row.last.value;
  if (until.value > 0 && row.size > until) return last;
  return std::min({last, c[0] + c[1] * row.ring.value, c[2] + c[3] * row.ring.value});
}

double curve_error(const CurveConstants& logs, const std::vector<CurveRow>& rows, Bytes until) {
  std::array<double, 6> constants{};
  std::transform(logs.begin(), logs.end(), constants.begin(), [](double v) { return std::exp(v); });
  double sum = 0;
  for (const CurveRow& row : rows) sum += std::abs(std::log(curve_time(constants, row, until) / row.measured.value));
  return sum;
}

/// Makes the constants of protocols equal if there are too few sizes to distinguish these protocols.
CurveConstants tie_protocols(CurveConstants c, std::size_t sizes) {
  if (sizes < kSizesForTwo) c[2] = c[4], c[3] = c[5];
  if (sizes < kSizesForThree) c[0] = c[2], c[1] = c[3];
  return c;
}

/// First guesses: the time of the fastest row is the start-up, and that of the slowest is due to its bytes. LL and
/// LL128 get 0.04 and 0.5 of that rate, and the start-up of Simple is longer by the factor `later`.
CurveConstants first_guess(const std::vector<CurveRow>& rows, double later) {
  const auto by_time = [](const CurveRow& a, const CurveRow& b) { return a.measured < b.measured; };
  const double least = std::ranges::min_element(rows, by_time)->measured.value;
  const CurveRow& most = *std::ranges::max_element(rows, by_time);
  const double byte = most.measured.value / most.last.value;
  const std::array<double, 6> c{least, byte / 0.04, least * 1.15, byte / 0.5, least * later, byte};
  CurveConstants logs{};
  std::transform(c.begin(), c.end(), logs.begin(), [](double v) { return std::log(v); });
  return logs;
}

FittedCurve search_curve(const std::vector<CurveRow>& rows) {
  // A switch to a slower protocol must lower the error by this much; a smaller gain may be the noise of one row.
  constexpr double kSwitchGain = 0.02;
  std::set<double> sizes;
  for (const CurveRow& row : rows) sizes.insert(row.size.value);
  std::vector<Bytes> switches{Bytes{0}};
  // NCCL switches somewhere between two sizes of the fit, which are a factor of 4 apart in nccl.csv: take their middle.
  if (sizes.size() >= kSizesForTwo)
    for (auto it = std::next(sizes.begin()); std::next(it) != sizes.end(); ++it)
      switches.push_back(Bytes{std::round(std::sqrt(*it * *std::next(it)))});
  double best = std::numeric_limits<double>::infinity();
  CurveConstants found{};
  Bytes until;
  for (const Bytes switch_size : switches)
    for (const double later : {1.5, 2.5, 4.0}) {
      CurveConstants logs = first_guess(rows, later);
      const double e =
          pattern_search(logs, [&] { return curve_error(tie_protocols(logs, sizes.size()), rows, switch_size); }) +
          (switch_size.value > 0 ? kSwitchGain : 0);
      if (e >= best - 1e-9) continue;
      best = e;
      found = tie_protocols(logs, sizes.size());
      until = switch_size;
    }
  FittedCurve curve;
  for (std::size_t p = 0; p < 3; ++p)
    curve.protocols[p] = {Seconds{std::exp(found[2 * p])}, BytesPerSecond{std::exp(-found[2 * p + 1])}};
  curve.until = until;
  return curve;
}

struct CurveKey {
  NcclOperation operation;
  int gpus;
  auto operator<=>(const CurveKey&) const = default;
};
using Curves = std::map<CurveKey, std::vector<NcclRow>>;

/// Does a curve have enough sizes with an even log2, so that the others can judge it?
bool can_be_judged(const std::vector<NcclRow>& rows) {
  std::set<double> even;
  for (const NcclRow& row : rows)
    if (nccl_size_is_fitted(row.size)) even.insert(row.size.value);
  return even.size() >= kFewestSizes;
}

FittedCurve fit_curve(const CurveKey& key, const std::vector<NcclRow>& rows, bool in_switch) {
  const bool judge = can_be_judged(rows);
  std::vector<CurveRow> fitted;
  std::set<double> sizes;
  for (const NcclRow& row : rows) {
    if (judge && !nccl_size_is_fitted(row.size)) continue;
    const Bytes ring = nccl_wire(key.operation, row.size, key.gpus);
    fitted.push_back({row.size, ring, in_switch ? nccl_in_switch_wire(row.size, key.gpus) : ring, row.time});
    sizes.insert(row.size.value);
  }
  if (sizes.size() < kFewestSizes)
    throw UserError(fmt::format("{} on {} GPUs: {} sizes; expected {} or more to fit", name_of(key.operation), key.gpus,
                                sizes.size(), kFewestSizes));
  return search_curve(fitted);
}

/// Estimates a ring's protocol if only sums in the switch were measured for `gpus` GPUs: the start-up by the line
/// through the curves of fewer GPUs, and the rate of the last of them. Without such curves it takes the same time as
/// the switch.
NcclProtocol unmeasured_ring(const std::vector<NcclCurve>& fewer, int gpus, const NcclProtocol& nvls) {
  if (fewer.empty())
    return {nvls.startup,
            nvls.rate * (nccl_wire(NcclOperation::all_reduce, Bytes{1}, gpus) / nccl_in_switch_wire(Bytes{1}, gpus))};
  const NcclCurve& last = fewer.back();
  Seconds slope;
  if (fewer.size() > 1) {
    const NcclCurve& previous = fewer[fewer.size() - 2];
    slope = (last.simple.startup - previous.simple.startup) / static_cast<double>(last.gpus - previous.gpus);
  }
  return {last.simple.startup + std::max(Seconds{0}, slope) * static_cast<double>(gpus - last.gpus), last.simple.rate};
}

void fit_curves(NcclModel& model, const Curves& curves, bool switch_adds) {
  std::map<NcclOperation, std::vector<NcclCurve>> rings;
  for (const auto& [key, rows] : curves) {
    const bool in_switch = switch_adds && key.operation == NcclOperation::all_reduce && key.gpus >= kInSwitchFrom;
    const FittedCurve fitted = fit_curve(key, rows, in_switch);
    NcclCurve curve{key.gpus, fitted.protocols[0], fitted.protocols[1], fitted.protocols[2], fitted.until};
    if (in_switch) {
      model.in_switch = {kInSwitchFrom, fitted.protocols[2]};  // the curve of the most GPUs is last and stays
      curve.simple = unmeasured_ring(rings[key.operation], key.gpus, fitted.protocols[2]);
    } else {
      rings[key.operation].push_back(curve);
    }
    model.curves[key.operation].push_back(curve);
  }
}

NcclErrors errors_of(const std::vector<NcclPoint>& points, bool judged) {
  std::vector<double> errors;
  for (const NcclPoint& p : points)
    if (p.judged == judged) errors.push_back(std::abs(p.error()));
  const auto rows = static_cast<int>(errors.size());
  return {errors.empty() ? FitErrors{} : fit_errors(std::move(errors)), rows};
}

std::string join_words(const std::set<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

NcclProvenance provenance_of(const NcclFit& fit, const std::vector<NcclLog>& logs) {
  std::set<std::string> files, gpus, texts;
  for (const NcclLog& log : logs) {
    files.insert(log.file);
    if (!log.gpu.empty()) gpus.insert(log.gpu);
    if (!log.provenance.empty()) texts.insert(log.provenance);
  }
  NcclProvenance p;
  const std::string who = gpus.empty() ? fit.model.gpu : join_words(gpus);
  p.head = fmt::format("NCCL {} on {}, by `trainyard fit nccl {}`: fit it again rather than edit.", fit.model.version,
                       who, join_words(files));
  p.fit = fmt::format("fit: `trainyard fit nccl {}`, {} rows of {}{}", join_words(files), fit.fitted.rows, who,
                      fit.judged.rows > 0 ? " of sizes whose log2 is even" : "");
  if (!texts.empty()) p.fit += "; " + join_words(texts);
  p.errors = fit.judged.rows > 0
                 ? fmt::format("{} rows of the same of sizes whose log2 is odd, kept out of the fit", fit.judged.rows)
                 : std::string("0: too few sizes to keep some out of the fit");
  return p;
}

/// Writes the model as an entry and reads it back, so that the errors are those of the rounded figures.
void write_and_judge(NcclFit& fit, const std::vector<NcclLog>& logs, const Curves& curves) {
  const std::string name = fit.model.name;
  const auto write_and_read = [&] {
    fit.entry = nccl_entry_text(fit.model, provenance_of(fit, logs));
    fit.model = read_nccl_model(parse_document(fit.entry, name + ".yaml"));
    fit.model.name = name;
  };
  write_and_read();
  for (const auto& [key, rows] : curves) {
    const bool judge = can_be_judged(rows);
    for (const NcclRow& row : rows)
      fit.points.push_back({row, nccl_cost(fit.model, {row.operation, row.size, row.gpus}).time,
                            judge && !nccl_size_is_fitted(row.size)});
  }
  fit.judged = errors_of(fit.points, true);
  fit.fitted = errors_of(fit.points, false);
  fit.model.median_error = fit.judged.median;
  fit.model.p90_error = fit.judged.p90;
  write_and_read();
}

}  // namespace

std::string nccl_entry_text(const NcclModel& model, const NcclProvenance& provenance) {
  const NcclInSwitch& in_switch = model.in_switch;
  std::string text = fmt::format("# {}\n", yaml_escaped(provenance.head));
  text += fmt::format("gpu: {}\narchitecture: {}\nnccl_version: \"{}\"\nsources:\n", model.gpu, model.architecture,
                      yaml_escaped(model.version));
  text +=
      fmt::format("  fit: \"{}\"\n  errors: \"{}\"\n", yaml_escaped(provenance.fit), yaml_escaped(provenance.errors));
  text += fmt::format("  link: \"the datasheet's rate, from the catalog's gpu {}\"\n", model.gpu);
  if (in_switch.from_gpus > 0) text += fmt::format("  in_switch: \"{}\"\n", kInSwitchSource);
  text += fmt::format("link: {{value: {:.6g} GB/s, source: link}}\n", model.link.value * 1e-9);
  text += fmt::format(
      "held_out_error:\n  median: {{value: {:.4f}, source: errors}}\n  p90: {{value: {:.4f}, source: errors}}\n",
      model.median_error, model.p90_error);
  if (in_switch.from_gpus > 0)
    text += fmt::format(
        "in_switch:\n  from_gpus: {{value: {}, source: in_switch, unverified: true}}\n  nvls:\n    startup: {{value: "
        "{:.4g} us, {}}}\n    rate: {{value: {:.4g} GB/s, {}}}\n",
        in_switch.from_gpus, in_switch.nvls.startup.value * 1e6, kSource, in_switch.nvls.rate.value * 1e-9, kSource);
  for (const auto& [operation, curves] : model.curves) text += curves_text(operation, curves);
  return text;
}

NcclModel read_nccl_model(const Node& entry) {
  return read_entry<NcclModel>("nccl", entry, [&entry](NcclModel& model, Fields& fields) {
    model.gpu = fields.text("gpu");
    model.architecture = fields.text("architecture");
    model.version = fields.text("nccl_version", "");
    model.link = fields.bandwidth("link");
    fields.read_map("held_out_error", [&model](Fields& errors) {
      model.median_error = errors.number("median", 0, 1e6);
      model.p90_error = errors.number("p90", 0, 1e6);
    });
    fields.read_map("in_switch", [&model](Fields& in_switch) {
      model.in_switch.from_gpus = in_switch.integer_within<int>("from_gpus", 2, 1'000'000);
      in_switch.read_required_map("nvls", [&model](Fields& nvls) {
        model.in_switch.nvls = {nvls.seconds("startup"), nvls.bandwidth("rate")};
      });
    });
    for (int i = 0; i < kNcclOperations; ++i) {
      const auto operation = static_cast<NcclOperation>(i);
      fields.read_map(name_of(operation), [&](Fields& curves) { model.curves[operation] = read_curves(curves); });
    }
    fields.finish();
    if (model.curves.empty()) fail(entry.place, fields.what() + ": no operation; expected one such as all_reduce");
  });
}

bool nccl_size_is_fitted(Bytes size) { return std::lround(std::log2(size.value)) % 2 == 0; }

NcclFit fit_nccl(const std::vector<NcclLog>& logs, const Gpu& gpu, const std::string& name) {
  NcclFit fit;
  fit.model.name = name;
  fit.model.gpu = gpu.name;
  fit.model.architecture = gpu.architecture;
  fit.model.link = nccl_link(gpu);
  if (fit.model.link.value <= 0)
    throw UserError(fmt::format("gpu {}: neither nvlink nor pcie, by which other GPUs would be scaled", gpu.name));
  Curves curves;
  std::set<std::string> versions;
  for (const NcclLog& log : logs) {
    if (!log.version.empty()) versions.insert(log.version);
    for (const NcclRow& row : log.rows) {
      if (row.nodes > 1) ++fit.between_nodes;
      if (row.nodes == 1) curves[{row.operation, row.gpus}].push_back(row);
    }
  }
  if (curves.empty())
    throw UserError(fmt::format("{}: only rows between nodes; a fit needs rows within one", logs.front().file));
  fit.model.version = versions.empty() ? "not stated" : join_words(versions);
  const bool switch_adds =
      gpu.nvlink.value > 0 && (same_name(gpu.architecture, "hopper") || same_name(gpu.architecture, "blackwell"));
  fit_curves(fit.model, curves, switch_adds);
  write_and_judge(fit, logs, curves);
  return fit;
}

}  // namespace trainyard

#include "models/fitted/nccl_entry.hpp"

#include <fmt/format.h>

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
    "GPUs, "
    "rings at 4 and 5; assumed of all GPUs whose switch can add";

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

}  // namespace trainyard

#include "tools/verbs/validation/validate_knobs.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "models/reading/catalog.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

struct Knob {
  std::string owner, key;
  FigureSource figure;
  bool by_command;  ///< written by `fit kernels`, `fit roofline`, `fit nccl` or `validate horovod --fit` from a table
};

/// Of every entry; what an entry has from its base belongs to the base.
std::vector<Knob> all_knobs() {
  const Catalog catalog;
  std::vector<Knob> knobs;
  std::set<std::string> known;
  for (const char* kind : {"gpu", "attention", "stack"})
    for (const std::string& name : catalog.names(kind))
      for (const FigureSource& figure : figure_sources(catalog.resolve(kind, Node::of_text(name)), "")) {
        if (!figure.source.starts_with("fit:")) continue;
        const std::string key = figure.figure.substr(figure.figure.find_first_not_of(": "));
        if (!known.insert(fmt::format("{}|{}|{}|{}", kind, key, figure.value, figure.source)).second) continue;
        const bool table =
            figure.source.find(".csv") != std::string::npos || figure.source.find("horovod") != std::string::npos;
        knobs.push_back({fmt::format("{} {}", kind, name), key, figure, table});
      }
  return knobs;
}

}  // namespace

int show_knobs(const std::string& json_file) {
  TextTable runs{{"belongs to", "constant", "value", "fitted to"}, {false, false, true, false}, {}};
  TextTable tables = runs;
  nlohmann::json out = nlohmann::json::array();
  for (const Knob& knob : all_knobs()) {
    (knob.by_command ? tables : runs)
        .rows.push_back({knob.owner, knob.key, knob.figure.value, knob.figure.source.substr(sizeof("fit: ") - 1)});
    out.push_back({{"belongs_to", knob.owner},
                   {"constant", knob.key},
                   {"value", knob.figure.value},
                   {"source", knob.figure.source},
                   {"by_table", knob.by_command}});
  }
  if (json_file != "-")
    fmt::print(
        "{} constants fitted to measured runs\n{}\n{} constants that a command fits to tables of kernels and "
        "collectives\n{}",
        runs.rows.size(), runs.text(), tables.rows.size(), tables.text());
  if (!json_file.empty()) write_atomically(json_file, json_text(nlohmann::json{{"knobs", out}}, 2) + "\n");
  return kGood;
}

}  // namespace trainyard

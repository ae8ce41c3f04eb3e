#include "scenarios/src/studies/measured/fitted_constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "models/reading/catalog.hpp"

namespace trainyard {

std::string FittedConstant::name() const { return fmt::format("{} {}: {}", kind, entries.front(), key); }

std::vector<FigureTrial> FittedConstant::trials(const std::string& instead) const {
  std::vector<FigureTrial> all;
  for (const std::string& entry : entries) all.push_back({kind, entry, key, instead});
  return all;
}

std::vector<FittedConstant> fitted_constants() {
  constexpr std::string_view kFit = "fit: ";
  const Catalog catalog;
  std::vector<FittedConstant> all;
  for (const char* kind : {"gpu", "attention", "stack"})
    for (const std::string& name : catalog.names(kind))
      // The figures that an entry inherits are listed with its base, so only its own ones are read here.
      for (const FigureSource& figure : figure_sources(catalog.entry(kind, name, {}), "")) {
        if (!figure.source.starts_with(kFit)) continue;
        const std::string key = figure.figure.substr(figure.figure.find_first_not_of(": "));
        const std::string source = figure.source.substr(kFit.size());
        const auto existing = std::ranges::find_if(all, [&](const FittedConstant& c) {
          return c.kind == kind && c.key == key && c.value == figure.value && c.source == source;
        });
        if (existing != all.end()) {
          existing->entries.push_back(name);
          continue;
        }
        const bool by_command = source.find(".csv") != std::string::npos || source.find("horovod") != std::string::npos;
        all.push_back({kind, {name}, key, figure.value, source, by_command});
      }
  return all;
}

std::vector<std::string> entry_with_bases(const std::string& kind, const std::string& name) {
  const Catalog catalog;
  const std::vector<std::string> names = catalog.names(kind);
  std::vector<std::string> chain;
  for (std::string next = name; std::ranges::find(names, next) != names.end();) {
    if (std::ranges::find(chain, next) != chain.end()) break;
    chain.push_back(next);
    const Node entry = catalog.entry(kind, next, {});
    const Node* base = entry.find("base");
    if (!base || base->kind != Node::Kind::scalar) break;
    next = base->scalar;
  }
  return chain;
}

}  // namespace trainyard

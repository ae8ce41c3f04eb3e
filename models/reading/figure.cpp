#include "models/reading/figure.hpp"

#include <utility>

namespace trainyard {
namespace {

std::vector<FigureTrial>& trials() {
  thread_local std::vector<FigureTrial> all;
  return all;
}

/// Removes the field at a path, and each map along the path that becomes empty.
void remove(Node& map, std::string_view path) {
  const std::size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  if (dot != std::string_view::npos) {
    Node* inner = map.find(key);
    if (!inner) return;
    remove(*inner, path.substr(dot + 1));
    if (!inner->fields.empty()) return;
  }
  std::erase_if(map.fields, [key](const auto& field) { return field.first == key; });
}

}  // namespace

FigureTrials::FigureTrials(std::vector<FigureTrial> figures)
    : outer_trials_(std::exchange(trials(), std::move(figures))) {}
FigureTrials::~FigureTrials() { trials() = std::move(outer_trials_); }

void apply_trials(Node& entry, std::string_view kind, std::string_view name) {
  for (const FigureTrial& figure : trials()) {
    if (figure.kind != kind || figure.entry != name) continue;
    if (figure.value.empty())
      remove(entry, figure.key);
    else
      set_field(entry, figure.key + ".value", figure.value);
  }
}

}  // namespace trainyard

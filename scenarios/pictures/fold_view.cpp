#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/pictures/views.hpp"
#include "scenarios/running/step_run.hpp"

namespace trainyard {
namespace {

/// "0-7, 64-71, …": runs of neighbours, or of equal steps "0, 8, … 120".
std::string in_words(const std::vector<Actor>& members) {
  std::string text;
  constexpr int kMostRuns = 6;
  int runs = 0;
  for (std::size_t i = 0; i < members.size();) {
    const Actor step = i + 1 < members.size() ? members[i + 1] - members[i] : 1;
    std::size_t end = i + 1;
    while (end < members.size() && members[end] - members[end - 1] == step) ++end;
    if (end - i == 2 && step > 1) end = i + 1;
    if (++runs > kMostRuns) return text + ", …";
    if (!text.empty()) text += ", ";
    text += end - i == 1 ? fmt::format("{}", members[i])
            : step == 1  ? fmt::format("{}-{}", members[i], members[end - 1])
                         : fmt::format("{}, {} … {}", members[i], members[i + 1], members[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace

FoldView fold_view(const Scenario& s) {
  const Plan laid_out = plan(s);
  SimulateOptions options;
  options.lays_out_only = true;
  const StepRun run(s, laid_out, options);
  FoldView view;
  view.ranks = s.ranks();
  view.unfolded = run.unfolded;
  if (!run.fold) return view;
  for (Actor c = 0; c < run.fold->classes(); ++c) {
    const std::vector<Actor>& members = run.fold->members(c);
    view.classes.push_back({members.front(), static_cast<int>(members.size()), in_words(members),
                            run.machine.cluster.graph().devices()[run.machine.cluster.device(members.front())].name});
  }
  view.links = static_cast<int>(run.fold->links().size());
  view.reasons = run.fold->reasons();
  return view;
}

nlohmann::ordered_json to_json(const FoldView& view) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (const FoldView::Class& c : view.classes)
    classes.push_back({{"rank", c.rank}, {"size", c.size}, {"members", c.members}, {"device", c.device}});
  return {{"ranks", view.ranks},     {"classes", classes},          {"link_classes", view.links},
          {"reasons", view.reasons}, {"unfolded", view.unfolded}};
}

}  // namespace trainyard

#include <nlohmann/json.hpp>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/running/step_run.hpp"

namespace trainyard {

FoldView fold_view(const Scenario& s) {
  const Plan laid_out = plan(s);
  SimulateOptions options;
  options.lays_out_only = true;
  const StepRun run(s, laid_out, options);
  FoldView view;
  view.ranks = s.ranks();
  view.unfolded_reason = run.unfolded_reason;
  if (!run.fold) return view;
  for (Actor c = 0; c < run.fold->classes(); ++c) {
    const std::vector<Actor>& members = run.fold->members(c);
    view.classes.push_back({members.front(), static_cast<int>(members.size()), ranks_in_words(members),
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
  return {{"ranks", view.ranks},
          {"classes", classes},
          {"link_classes", view.links},
          {"reasons", view.reasons},
          {"unfolded", view.unfolded_reason}};
}

}  // namespace trainyard

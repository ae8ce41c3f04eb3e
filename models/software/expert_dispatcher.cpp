#include "models/software/expert_dispatcher.hpp"

#include "models/reading/document.hpp"

namespace trainyard {

ExpertDispatcher read_expert_dispatcher(const Catalog& catalog, const Node& reference) {
  const Node entry = catalog.resolve("dispatcher", reference);
  Fields fields(entry, "dispatcher");
  ExpertDispatcher dispatcher;
  dispatcher.name = fields.text("name");
  fields.text("description", "");
  fields.child("sources");
  dispatcher.hca_share = fields.number("hca_share", 1e-3, 1);
  dispatcher.nvlink_share = fields.number("nvlink_share", 1e-3, 1);
  dispatcher.sms = static_cast<int>(fields.integer("sms", 1));
  dispatcher.rate_per_sm = fields.bandwidth("rate_per_sm");
  dispatcher.sources = figure_sources(entry, dispatcher.name);
  fields.finish();
  return dispatcher;
}

}  // namespace trainyard

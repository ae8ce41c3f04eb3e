#include "scenarios/src/sizing/size_on_tpus.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/hardware/adapter_rate.hpp"
#include "models/hardware/storage.hpp"
#include "models/software/training_memory.hpp"

namespace trainyard {

void put_on_tpus(Node& document) {
  const auto text = [&document](const char* value) { return Node::scalar_node(value, document.place); };
  Node& plan = *document.find("plan");
  std::erase_if(plan.fields, [](const auto& field) { return field.first == "strategy"; });
  set_field(document, "software", text("plain"));
  if (!plan.find("collectives")) set_field(document, "plan.collectives", text("flows"));
}

void tell_checkpoint_times(Node& faults, const Scenario& step) {
  Node* checkpoint = faults.find("checkpoint");
  const Node* store = checkpoint ? checkpoint->find("storage") : nullptr;
  if (!store || (store->kind == Node::Kind::scalar && store->scalar == "local")) return;
  const Storage storage = read_storage(Catalog().resolve("storage", *store));
  if (storage.lanes != 0) return;  // the storage is a drive of the host
  const NodeType& host = step.cluster.node;
  const double bytes =
      checkpoint_state(step.network.parameters(), step.precision, step.optimizer, step.software).total().value;
  const double adapters = adapter_rate(host).value * host.hcas * step.cluster.nodes;
  const auto set_time = [&](const char* key, double rate) {
    if (!checkpoint->find(key))
      set_field(*checkpoint, key, Node::scalar_node(fmt::format("{:.6g} s", bytes / rate), checkpoint->place));
  };
  const Node* kind = checkpoint->find("kind");
  if (kind && kind->scalar == "asynchronous") set_time("snapshot", host.gpu.pcie.value * step.cluster.gpus());
  set_time("write", std::min(storage.write.value, adapters));
  set_time("load", std::min(storage.read.value, adapters));
  std::erase_if(checkpoint->fields, [](const auto& field) { return field.first == "storage"; });
}

}  // namespace trainyard

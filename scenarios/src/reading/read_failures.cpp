#include "scenarios/src/reading/read_failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/reading/document.hpp"

namespace trainyard {
namespace {

/// The kinds of components that fail.
const std::vector<Key> kMeanTimes{
    {"gpu", "Mean time between failures of one device, for example 50000 h. Default: devices do not fail."},
    {"node", "Mean time between failures of one node, for example 20000 h. Default: nodes do not fail."},
    {"nic", "Mean time between failures of one network adapter, for example 200000 h. Default: adapters do not fail."},
    {"switch", "Mean time between failures of one switch, for example 200000 h. Default: switches do not fail."},
    {"link",
     "Mean time between failures of one cable between an adapter and a switch, for example 1000000 h. Default: cables "
     "do not fail."},
    {"software",
     "Mean time between software failures of the training, for example 500 h. Default: software does not fail."},
    {"worker", "Mean time between failures of one worker, for example 50000 h. Default: workers do not fail."},
    {"server",
     "Mean time between failures of one parameter server, for example 50000 h. Default: servers do not fail."}};

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const Key& kind : kMeanTimes) names.emplace_back(kind.name);
  return names;
}

/// Returns true if a failure of this kind takes its node out of service, so that a spare node takes its place.
bool takes_node(const std::string& kind) { return kind == "gpu" || kind == "node" || kind == "nic"; }

double adapters(const ClusterSpec& cluster) {
  double count = 0;
  for (int node = 0; node < cluster.nodes; ++node) count += cluster.type_of(node).hcas;
  return count;
}

/// Counts the components of a kind. A link is the cable of an adapter; cables between switches are not counted.
double count_of_kind(const std::string& kind, const FailingMachine& machine) {
  const ClusterSpec& cluster = machine.cluster;
  if (kind == "gpu") return cluster.gpus();
  if (kind == "node") return cluster.nodes;
  if (kind == "nic" || kind == "link") return adapters(cluster);
  if (kind == "switch")
    return static_cast<double>(build_cluster(cluster).devices_of_kind(DeviceKind::network_switch).size());
  if (kind == "worker") return machine.workers;
  if (kind == "server") return machine.servers;
  return 1;
}

/// Explains that there is no component of this kind.
std::string absence_in_words(const std::string& kind) {
  return kind == "server" ? "there is none (plan.data_parallel: {mechanism: parameter-server})"
                          : "the cluster has none";
}

Seconds positive_time(Fields& fields, const char* key) {
  const Seconds time = fields.seconds(key);
  if (time.value <= 0) fields.refuse(key, "more than 0 expected");
  return time;
}

void read_rates(FailureChoice& choice, const Node& node, const FailingMachine& machine) {
  Fields fields(node, "faults.failures.mtbf");
  for (const Key& mean_time : kMeanTimes) {
    if (!fields.has(mean_time)) continue;
    const std::string kind(mean_time.name);
    const Node& part = *fields.child(kind);
    FailingParts parts;
    parts.name = kind;
    parts.takes_node = takes_node(kind);
    parts.survived = kind == "server" && machine.survives_server;
    const bool figure = part.find("value") || part.find("source") || part.find("unverified");
    if (part.kind == Node::Kind::map && !figure) {
      const Node map = long_form(&part, "mtbf", part.place);
      Fields counted(map, "faults.failures.mtbf." + kind);
      parts.mtbf = positive_time(counted, "mtbf");
      parts.count = counted.has("count") ? counted.number("count", 1, 1e9) : count_of_kind(kind, machine);
      counted.finish();
    } else {
      parts.mtbf = positive_time(fields, kind.c_str());
      parts.count = count_of_kind(kind, machine);
    }
    if (parts.count <= 0) fail(part.place, fmt::format("faults.failures.mtbf.{}: {}", kind, absence_in_words(kind)));
    choice.parts.push_back(parts);
  }
  fields.finish();
  if (choice.parts.empty())
    fail(node.place, fmt::format("faults.failures.mtbf: expected the mean time between failures of one {}",
                                 fmt::join(kinds(), ", one ")));
}

int number_of(const std::string& word, int count, const std::string& kind, const Place& place) {
  if (count == 0) fail(place, fmt::format("faults.failures: {} {}: {}", kind, word, absence_in_words(kind)));
  const std::optional<std::int64_t> number = find_integer(word);
  if (!number)
    fail(place, fmt::format("faults.failures: {} \"{}\"; expected a number from 0 to {}", kind, word, count - 1));
  if (*number < 0 || *number >= count)
    fail(place, fmt::format("faults.failures: {} {}; there are {} 0 to {}", kind, *number, kind, count - 1));
  return static_cast<int>(*number);
}

std::vector<std::string> names_of(const std::string& kind, const ClusterSpec& cluster) {
  const DeviceGraph graph = build_cluster(cluster);
  std::vector<std::string> names;
  if (kind == "link")
    for (const Link& link : graph.links()) names.push_back(link.name);
  else
    for (const DeviceId id : graph.devices_of_kind(DeviceKind::network_switch))
      names.push_back(graph.devices()[id].name);
  return names;
}

/// Returns the node that holds a component. No value: it is in no node, or is a server, which may be in any.
std::optional<int> node_of(const std::string& kind, int number, const ClusterSpec& cluster) {
  if (kind == "node") return number;
  if (kind == "gpu" || kind == "worker") return cluster.node_of_gpu(number);
  if (kind != "nic") return std::nullopt;
  int node = 0;
  for (int rest = number; rest >= cluster.type_of(node).hcas; ++node) rest -= cluster.type_of(node).hcas;
  return node;
}

/// Reads a component such as "gpu 5": its kind and its node. Throws UserError if the cluster has no such component.
void read_component(SetFailure& failure, const std::string& what, const FailingMachine& machine, const Place& place) {
  const std::size_t space = what.find(' ');
  const std::string kind = what.substr(0, space), which = space == std::string::npos ? "" : what.substr(space + 1);
  if (place_among(kind, kinds()) == kMeanTimes.size())
    fail(place, fmt::format("faults.failures: unknown component \"{}\"{}", kind, hint(kind, kinds())));
  if (kind == "software") {
    if (!which.empty()) fail(place, "faults.failures: software has no number; expected the word alone");
  } else if (kind == "switch" || kind == "link") {
    const std::vector<std::string> names = names_of(kind, machine.cluster);
    if (std::ranges::find(names, which) == names.end())
      fail(place, fmt::format("faults.failures: unknown {} \"{}\"{}", kind, which, hint(which, names)));
  } else {
    failure.node =
        node_of(kind, number_of(which, static_cast<int>(count_of_kind(kind, machine)), kind, place), machine.cluster);
  }
  failure.part = kind;
  failure.takes_node = takes_node(kind);
  failure.survived = kind == "server" && machine.survives_server;
}

/// Returns 550 for "550 steps". No value: the text is no number of steps.
std::optional<double> steps_of(const std::string& text) {
  for (const char* unit : {" steps", " step"})
    if (text.ends_with(unit)) return parse_number(text.substr(0, text.size() - std::string(unit).size()));
  return std::nullopt;
}

void read_list(FailureChoice& choice, const Node& list, const FailingMachine& machine) {
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    Fields fields(list.items[i], fmt::format("faults.failures.{}", i));
    SetFailure failure;
    const std::string moment = fields.text(
        {"at", "Time of a prescribed failure, or the number of steps before it, for example 2 h or 100 steps."});
    if (const std::optional<double> steps = steps_of(moment)) {
      failure.after_step = *steps;
      if (*steps < 0 || *steps != std::floor(*steps))
        fields.refuse("at", fmt::format("{} steps; expected a whole number", *steps));
    } else {
      failure.time = fields.seconds("at");
    }
    choice.failure_names.push_back(
        fields.text({"what", "Part that fails, for example gpu 5, node 3 or switch leaf0."}));
    read_component(failure, choice.failure_names.back(), machine, fields.place_of("what"));
    choice.failure_places.push_back(fields.place_of("at"));
    fields.finish();
    choice.failures.push_back(std::move(failure));
  }
}

void read_interval(FailureChoice& choice, Fields& fields) {
  const bool every = fields.has("every"),
             epochs = fields.has(
                 {"virtual_epochs",
                  "Number of checkpoints in each epoch, for example 10. Default: the interval is that of every."});
  if (every == epochs)
    fail(fields.place(), "faults.checkpoint: expected one of every: 100 steps | 30 min | optimal, and virtual_epochs");
  choice.every_place = fields.place_of(every ? "every" : "virtual_epochs");
  if (epochs) {
    choice.virtual_epochs = static_cast<double>(fields.integer("virtual_epochs", 1));
    return;
  }
  const std::string text = fields.text({"every",
                                        "Time or steps between checkpoints, for example 30 min or 100 steps; optimal: "
                                        "the interval that loses the least time. Required without virtual_epochs."});
  choice.optimal = text == "optimal";
  if (choice.optimal) return;
  if (const std::optional<double> steps = steps_of(text)) {
    choice.interval_steps = *steps;
    if (*steps < 1 || *steps != std::floor(*steps))
      fail(choice.every_place,
           fmt::format("faults.checkpoint.every: {} steps; expected a whole number from 1", *steps));
  } else {
    choice.every_time = positive_time(fields, "every");
  }
}

void read_storage_choice(FailureChoice& choice, Fields& fields, const ClusterSpec& cluster, const Catalog& catalog) {
  const Node* node = fields.child_unless_null(
      {"storage",
       "Storage of checkpoints: a name, for example nfs-10g (trainyard list storages), local (drives of "
       "the nodes), or a map. Default: none; then write and load must be given."});
  if (!node) return;
  if (node->kind == Node::Kind::scalar && node->scalar == "local") {
    choice.local = true;
    for (const NodeType* type : cluster.types())
      if (type->nvme.count == 0)
        fail(node->place, fmt::format("faults.checkpoint.storage: local, but {} has no drives (cluster.nvme: {{count, "
                                      "type}}, or a drive's name here)",
                                      type->name));
    return;
  }
  const Storage storage = read_storage(catalog.resolve("storage", *node));
  if (storage.lanes == 0) {
    choice.store = storage;
    return;
  }
  choice.local = true;
  for (const NodeType* type : cluster.types())
    choice.drive = NvmeType{
        std::max(1, type->nvme.count), storage.read, storage.write, storage.latency, storage.lanes, storage.capacity};
}

void read_checkpoint(FailureChoice& choice, const Node& node, const ClusterSpec& cluster, const Catalog& catalog) {
  Fields fields(node, "faults.checkpoint");
  choice.checkpoints = true;
  choice.checkpoint_place = node.place;
  read_interval(choice, fields);
  choice.asynchronous =
      fields.choice(
          {"kind",
           "Whether training waits for the whole checkpoint (synchronous), or only for a copy of it (asynchronous)."},
          {"synchronous", "asynchronous"}, "synchronous") == "asynchronous";
  choice.sharded = fields.boolean({"sharded", "Whether each rank writes its own share of the checkpoint."}, true);
  read_storage_choice(choice, fields, cluster, catalog);
  for (const auto& [key, time] :
       {std::pair{Key{"snapshot",
                      "Time of the copy for which an asynchronous checkpoint stops training, for example 5 s. Default: "
                      "simulated."},
                  &choice.snapshot},
        {{"write", "Time to write a checkpoint, for example 60 s. Default: simulated."}, &choice.write},
        {{"load", "Time to read a checkpoint, for example 60 s. Default: simulated."}, &choice.load}})
    if (fields.has(key)) *time = fields.seconds(key);
  if (choice.snapshot && !choice.asynchronous) fields.refuse("snapshot", "only with kind: asynchronous");
  if (choice.snapshot && choice.write && *choice.snapshot > *choice.write)
    fields.refuse("snapshot", "longer than write, of which it is a part");
  const bool stored = choice.store || choice.local;
  const bool has_times = choice.write && choice.load && (choice.snapshot || !choice.asynchronous);
  if (!stored && !has_times)
    fail(node.place,
         fmt::format("faults.checkpoint: expected storage (local, or one of {}), or the times write and load{}",
                     fmt::join(catalog.names("storage"), ", "), choice.asynchronous ? ", and snapshot" : ""));
  fields.finish();
}

void read_restart(Recovery& recovery, const Node& node) {
  Fields fields(node, "faults.restart");
  recovery.detect = fields.seconds({"detect", "Time until a failure is noticed, for example 30 s."}, Seconds{0});
  recovery.restart = fields.seconds(
      {"restart", "Time from the notice until training goes on, without reading the checkpoint, for example 5 min."},
      Seconds{0});
  if (const Seconds time = fields.seconds(
          {"repair", "Time until a failed node can be used again, for example 24 h. Default: it never can."},
          Seconds{0});
      time.value > 0)
    recovery.repair = time;
  recovery.elastic =
      fields.boolean({"elastic", "Whether training goes on with fewer replicas until a node is back."}, false);
  constexpr int most_spares = 1 << 20;
  if (fields.has({"spares",
                  "Number of nodes that wait to replace a failed one, for example 2. Default: always enough; 0 with "
                  "elastic: true."})) {
    recovery.spares = fields.integer_within("spares", 0, most_spares);
  } else if (recovery.elastic) {
    recovery.spares = 0;
  }
  fields.finish();
}

}  // namespace

FailureChoice read_failures(Fields& faults, const FailingMachine& machine, const Catalog& catalog) {
  FailureChoice choice;
  choice.place = faults.place();
  if (const Node* node = faults.child_unless_null("failures")) {
    if (node->kind == Node::Kind::list) {
      read_list(choice, *node, machine);
    } else {
      Fields fields(*node, "faults.failures");
      read_rates(choice, fields.required_child("mtbf"), machine);
      choice.seed = fields.integer<std::uint64_t>({"seed", "Seed of the random failures, for example 2."}, 0, 1);
      constexpr int most_runs = 100000;
      choice.runs = fields.integer_within(
          {"runs", "Number of trainings that are simulated, each with its own random failures, for example 50."}, 1,
          most_runs, choice.runs);
      fields.finish();
    }
  }
  if (const Node* node = faults.child_unless_null("checkpoint"))
    read_checkpoint(choice, *node, machine.cluster, catalog);
  if (const Node* node = faults.child_unless_null("restart")) {
    read_restart(choice.recovery, *node);
    if (choice.parts.empty() && choice.failures.empty())
      fail(node->place, "faults.restart: nothing fails; expected faults.failures");
  }
  if (choice.optimal && choice.parts.empty())
    fail(choice.every_place,
         "faults.checkpoint.every: optimal needs random failures; expected faults.failures: {mtbf: {…}}");
  return choice;
}

void check_failures(const FailureChoice& choice, const TrainingLength& length) {
  if (!choice.is_given()) return;
  if (!length.is_given())
    fail(choice.place,
         "faults: the length of the training is needed; expected plan.training: {time: 54 d}, {steps} or others");
  if (choice.virtual_epochs > 0 && length.epochs == 0)
    fail(choice.every_place, "faults.checkpoint.virtual_epochs: expected plan.training with epochs");
  if (choice.virtual_epochs > length.steps_per_epoch && length.epochs > 0)
    fail(choice.every_place, fmt::format("faults.checkpoint.virtual_epochs: {} of an epoch of {} steps",
                                         choice.virtual_epochs, length.steps_per_epoch));
  if (length.steps > 0 && choice.interval_steps > length.steps)
    fail(choice.every_place, fmt::format("faults.checkpoint.every: {} steps, but the training has {}",
                                         choice.interval_steps, length.steps));
  for (std::size_t i = 0; i < choice.failures.size(); ++i) {
    const SetFailure& failure = choice.failures[i];
    if (length.steps > 0 && failure.after_step.value_or(0) >= length.steps)
      fail(choice.failure_places[i], fmt::format("faults.failures.{}.at: {} steps, but the training ends after {}", i,
                                                 *failure.after_step, length.steps));
    if (length.time.value > 0 && !failure.after_step && failure.time >= length.time)
      fail(choice.failure_places[i], fmt::format("faults.failures.{}.at: {}, but the training ends after {}", i,
                                                 show(failure.time), long_time(length.time)));
  }
}

}  // namespace trainyard

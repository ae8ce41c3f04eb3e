#include "scenarios/src/reading/read_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace trainyard {
namespace {

constexpr double kMostSamples = 1e15;
constexpr int kMostPrefetch = 1024, kMostLanes = 16, kMostWorkers = 1 << 16;
constexpr std::int64_t kMostEpochs = 16;
/// Most files of a node in the simulation of its cache. If there are more, several count as one.
constexpr double kMostFiles = 1 << 20;

void read_dataset(InputSupply& supply, const Node& node) {
  Fields fields(node, "input.dataset");
  supply.samples = fields.number({"samples", "Number of samples in an epoch, for example 1281167."}, 1, kMostSamples);
  supply.sample = fields.bytes({"sample_size", "Size of a stored sample, for example 110 kB."});
  const bool records =
      fields.choice(
          {"files", "How samples are stored: records (files of many samples) or small (one file for each sample)."},
          {"records", "small"}, "records") == "records";
  if (!records && fields.has("record_file"))
    fields.refuse("record_file", "with files: records only; small files have one sample");
  supply.file = records
                    ? fields.bytes({"record_file", "Size of a file of records, for example 256 MiB. Default: 128 MiB."},
                                   Bytes{128.0 * (1 << 20)})
                    : supply.sample;
  if (supply.file < supply.sample)
    fields.refuse("record_file",
                  fmt::format("{} does not hold a sample of {}", show(supply.file), show(supply.sample)));
  fields.finish();
}

/// Reads a rate such as "100" or "100 /s".
double read_rate(Fields& fields) {
  std::string text =
      fields.text({"rate", "Samples that one worker decodes in a second, for example 100 /s. Required without time."});
  if (const std::size_t unit = text.find("/s"); unit != std::string::npos && unit + 2 == text.size())
    text.erase(text.find_last_not_of(' ', unit - (unit > 0 ? 1 : 0)) + 1);
  const double rate = find_number(text).value_or(0);
  constexpr double least = 1e-6, most = 1e12;
  if (!(rate >= least && rate <= most))
    fields.refuse("rate",
                  fmt::format("\"{}\"; samples a second of one worker expected, such as 100 /s", fields.text("rate")));
  return rate;
}

/// Reads `decode`. Workers share the cores that the scenario states, or all cores of the node if its CPU is known.
void read_decode(InputSupply& supply, const Node& node, const ClusterSpec& cluster) {
  Fields fields(node, "input.decode");
  supply.workers = fields.integer_within<int>(
      {"workers", "Number of threads of a node that decode samples, for example 16."}, 1, kMostWorkers);
  if (fields.has("rate") ==
      fields.has({"time", "Time in which one worker decodes a sample, for example 10 ms. Required without rate."}))
    fail(fields.place(), "input.decode: either rate (samples a second of one worker) or time (of one sample) expected");
  if (fields.has("rate")) {
    supply.rate = read_rate(fields);
  } else {
    const Seconds time = fields.seconds("time");
    if (!(time.value > 0)) fields.refuse("time", "more than 0 expected; leave decode out");
    supply.rate = 1 / time.value;
  }
  // If nodes differ, the fewest cores count.
  int cores = 0;
  for (const NodeType* type : cluster.types()) {
    const int type_cores = type->sockets * type->cpu.cores;
    if (type_cores > 0) cores = cores == 0 ? type_cores : std::min(cores, type_cores);
  }
  supply.cores =
      fields.integer_within<int>({"cores",
                                  "Number of cores that the decoding threads of a node share, for example 16. Default: "
                                  "all cores of its CPUs, or one for each thread if the CPU is not known."},
                                 1, cores > 0 ? cores : kMostWorkers, cores);
  fields.finish();
}

void read_cache(InputSupply& supply, const Node& node, const ClusterSpec& cluster) {
  Fields fields(node, "input.cache");
  supply.cache = fields.bytes({"size", "Host memory of each node for cached samples, for example 200 GB."});
  supply.policy = fields.one_of(
      {"policy",
       "Which samples the cache keeps: those read last (lru), or those of the first epoch that fit (pinned)."},
      {"lru", "pinned"}, CachePolicy::lru);
  for (const NodeType* type : cluster.types())
    if (type->host_memory.value > 0 && supply.cache > type->host_memory)
      fields.refuse("size", fmt::format("{}, but {} has {} of host memory", show(supply.cache), type->name,
                                        show(type->host_memory)));
  fields.finish();
}

void read_store(InputChoice& choice, Fields& fields, const Catalog& catalog) {
  InputSupply& supply = choice.supply;
  const Node* storage =
      fields.child_unless_null({"storage",
                                "Storage of the samples: a name, for example nfs-10g (trainyard list storages), "
                                "local (drives of the node), or a map. Default: local."});
  constexpr const char* with_shared = "with a storage that nodes share";
  if (!storage || (storage->kind == Node::Kind::scalar && same_name(storage->scalar, "local"))) {
    supply.store = SampleStore::drives;
    fields.require_condition("shared", false, with_shared);
  } else {
    const Node entry = catalog.resolve("storage", *storage);
    supply.storage = read_storage(entry);
    choice.sources = supply.storage.sources;
    const bool shared = fields.boolean({"shared",
                                        "Whether all nodes share one storage; false: each node has one. Default: true, "
                                        "unless the storage is a drive."},
                                       supply.storage.lanes == 0);
    supply.store = shared ? SampleStore::shared : SampleStore::own;
    const Bytes dataset = supply.samples * supply.sample;
    if (shared && supply.storage.capacity.value > 0 && dataset > supply.storage.capacity)
      fail(storage->place, fmt::format("input.storage: a dataset of {}, but {} holds {}", show(dataset),
                                       supply.storage.name, show(supply.storage.capacity)));
  }
  for (const char* key : {"port", "over_adapters"})
    fields.require_condition(key, supply.store == SampleStore::shared, with_shared);
  supply.port = fields.bandwidth(
      {"port", "Rate of each node towards a shared storage, for example 25 Gbit/s. Default: no limit."},
      BytesPerSecond{0});
  supply.over_adapters = fields.boolean(
      {"over_adapters", "Whether samples come from a shared storage over the adapters that also carry gradients."},
      false);
  if (supply.over_adapters && supply.port.value > 0)
    fields.refuse("port", "the samples come over the adapters; leave one of them out");
}

std::size_t nodes_of(const std::vector<std::vector<Actor>>& groups, const ClusterSpec& cluster) {
  std::set<int> nodes;
  for (const std::vector<Actor>& ranks : groups) nodes.insert(cluster.node_of_gpu(ranks.front()));
  return nodes.size();
}

/// Throws UserError if a storage that belongs to one node cannot hold the node's part of the samples.
void require_room(const InputSupply& supply, std::size_t nodes, const ClusterSpec& cluster, const Node& input) {
  if (supply.store == SampleStore::shared) return;
  const Bytes part = supply.samples * supply.sample / static_cast<double>(nodes);
  for (const NodeType* type : cluster.types()) {
    const Bytes room =
        supply.store == SampleStore::drives ? type->nvme.count * type->nvme.capacity : supply.storage.capacity;
    if (room.value > 0 && part > room)
      fail(input.find("dataset")->place,
           fmt::format("input.dataset: {} for {}, but the storage of {} holds {}", show(part),
                       nodes == 1 ? "the node" : fmt::format("each of {} nodes", nodes), type->name, show(room)));
  }
}

/// Returns the share of an epoch's bytes that a node reads from the storage: it simulates the cache of a node, which
/// reads its own part of the files.
double missed_share(const InputSupply& supply, std::size_t nodes) {
  if (supply.cache.value == 0) return 1;
  const Bytes part = supply.samples * supply.sample / static_cast<double>(nodes);
  const double files = std::min(kMostFiles, std::ceil(part / supply.file));
  const Bytes size = part / files;
  double read = 0;
  for (const Bytes missed : missed_reads(static_cast<std::int64_t>(files), size, PageCache(supply.cache, supply.policy),
                                         supply.order, supply.epoch))
    read += missed.value;
  return read / part.value;
}

}  // namespace

std::vector<std::vector<Actor>> loader_groups(const Mesh& mesh) {
  std::vector<std::vector<Actor>> groups;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const Coordinates coordinates = mesh.coordinates(rank);
    if (coordinates.pipeline != 0 || coordinates.tensor != 0) continue;
    groups.push_back(mesh.group(rank, Axis::tensor));
  }
  return groups;
}

InputChoice read_input(const Node& node, const Catalog& catalog, const ClusterSpec& cluster, const Mesh& mesh) {
  Fields fields(node, "input");
  InputChoice choice;
  choice.place = node.place;
  InputSupply& supply = choice.supply;
  read_dataset(supply, fields.required_child("dataset"));
  read_store(choice, fields, catalog);
  if (const Node* decode = fields.child_unless_null("decode")) read_decode(supply, *decode, cluster);
  supply.readers = fields.integer_within<int>(
      {"readers",
       "Number of threads of a node that read samples, for example 4. Default: as many as decode, at least 1."},
      1, kMostWorkers, std::max<std::int64_t>(1, supply.workers));
  supply.on_gpu = fields.bytes(
      {"sample_on_gpu", "Size of a sample as it is copied to the device, for example 600 kB. Default: sample_size."},
      supply.sample);
  choice.overlap =
      fields.one_of({"overlap",
                     "Overlap of the input of the next batches: none (a step asks for its batch and waits), prefetch "
                     "(batches are read, decoded and copied one after another while the device computes) or full "
                     "(reading, decoding and copying also overlap with each other)."},
                    {"none", "prefetch", "full"}, InputOverlap::full);
  if (fields.has("prefetch") && choice.overlap == InputOverlap::none)
    fields.refuse("prefetch", "nothing is fetched ahead with overlap: none");
  choice.prefetch = fields.integer_within<int>(
      {"prefetch", "Number of batches that are prepared ahead, for example 4."}, 1, kMostPrefetch, 2);
  if (const Node* cache =
          fields.child_unless_null({"cache",
                                    "Host memory of each node that caches samples, for example {size: 200 GB, "
                                    "policy: lru}. Default: no cache."}))
    read_cache(supply, *cache, cluster);
  supply.order = fields.one_of({"order", "Order in which files are read in an epoch: sequential or shuffled."},
                               {"sequential", "shuffled"}, ReadOrder::sequential);
  const std::int64_t epoch = fields.integer(
      {"epoch", "Number of the epoch that is simulated, 1 to 16, for example 2. In epoch 1 nothing is cached yet."}, 1,
      1);
  if (epoch > kMostEpochs)
    fields.refuse(
        "epoch", fmt::format("{}; at most {}: by then the content of the cache no longer changes", epoch, kMostEpochs));
  supply.epoch = static_cast<int>(epoch);
  fields.finish();
  const std::size_t nodes = nodes_of(loader_groups(mesh), cluster);
  require_room(supply, nodes, cluster, node);
  supply.missed = missed_share(supply, nodes);
  return choice;
}

InputPlan input_plan(const InputChoice& choice, int context, std::int64_t micro_batch_size, int batches,
                     int groups_a_node) {
  const InputSupply& supply = choice.supply;
  const auto samples = static_cast<double>(micro_batch_size);
  InputPlan plan;
  plan.overlap = choice.overlap;
  plan.prefetch = choice.prefetch;
  plan.batches = batches;
  plan.stored = samples * supply.sample / context;
  plan.on_gpu = samples * supply.on_gpu / context;
  plan.read = {plan.stored * supply.missed};
  if (supply.workers == 0) return plan;
  // Workers share a batch evenly, so one operation stands for all of them. If there are more workers than samples, they
  // work on several batches at once.
  const double workers = static_cast<double>(supply.workers) / groups_a_node;
  const int most = choice.overlap == InputOverlap::full ? std::min(choice.prefetch, kMostLanes) : 1;
  plan.lanes = std::clamp(static_cast<int>(std::ceil(workers / samples)), 1, most);
  plan.decodes = true;
  plan.decode.kernel = kDecode;
  plan.decode.bytes = plan.stored / std::min(samples, workers / plan.lanes);
  return plan;
}

}  // namespace trainyard

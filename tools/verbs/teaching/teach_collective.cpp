// `trainyard teach all-reduce` and the other collectives.
#include <fmt/format.h>

#include "scenarios/src/lessons/data_size.hpp"
#include "scenarios/src/lessons/teach_collective.hpp"
#include "scenarios/src/reading/read_collective.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/topo_machine.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

/// The default machine has round figures, so that times can be checked by mental arithmetic.
constexpr BytesPerSecond kStarRate{25e9};
constexpr Picoseconds kStarLatency{1'000'000};

struct TeachFlags {
  std::string algorithm, size = "4 MiB", reduction = "sum", chunk, listing, direction;
  int ranks = 4, channels = 0, root = 0, labels_from = 0;
  bool blocking = false;
  TopoMachineArguments machine_arguments;
};

/// The ring algorithm for a direction: the reversed ring is another algorithm. Throws UserError for other algorithms.
std::string in_direction(const std::string& direction, const std::string& algorithm) {
  if (algorithm != "ring")
    throw UserError(fmt::format("--direction {}: a single ring has a direction; {} is none", direction, algorithm));
  return direction == "reversed" ? "ring-reversed" : algorithm;
}

std::string algorithm_of(const TeachFlags& flags, Operation operation) {
  const std::string algorithm = flags.algorithm.empty() ? default_collective(operation).name : flags.algorithm;
  if (algorithm == "auto") throw UserError("--algorithm auto: name one (trainyard list collectives)");
  if (!flags.direction.empty() && !flags.listing.empty())
    throw UserError("--direction: the textbooks' listing goes forward; leave out --direction or --listing");
  if (!flags.direction.empty()) return in_direction(flags.direction, algorithm);
  if (flags.listing.empty()) return algorithm;
  if (flags.listing != "literal")
    throw UserError(fmt::format("--listing {}: unknown; literal is the only listing", flags.listing));
  if (operation != Operation::all_reduce || (algorithm != "ring" && algorithm != "ring-literal"))
    throw UserError(fmt::format("--listing literal: it lists the all-reduce by ring, not the {} by {}",
                                name_of(operation), algorithm));
  return "ring-literal";
}

/// The flags as keys of a scenario's plan, so that lessons and scenarios share one reader.
Node choice_node(const TeachFlags& flags, const std::string& algorithm) {
  Node node = Node::empty_map(Place::named("trainyard teach"));
  set_from_flag(node, "algorithm", "--algorithm", algorithm);
  set_from_flag(node, "chunk", "--chunk", flags.chunk);
  if (flags.channels != 0) set_from_flag(node, "channels", "--channels", std::to_string(flags.channels));
  return node;
}

TopoMachine machine_of(const TopoMachineArguments& machine_arguments, int ranks, std::string& words) {
  if (!machine_arguments.any_given()) {
    TopoMachine machine{"star", star_cluster(ranks, kStarRate, kStarLatency), {}};
    words = fmt::format("{} GPUs round one switch, {} each way, {} from GPU to GPU", ranks, show(kStarRate),
                        show(kStarLatency.seconds()));
    return machine;
  }
  TopoMachine machine = machine_arguments.read("teach");
  const int all = machine.cluster.gpus();
  if (ranks > all) throw UserError(fmt::format("--ranks {}: {} has {}", ranks, machine.name, counted_noun(all, "GPU")));
  words = describe(machine.cluster);
  return machine;
}

Bytes size_of(const std::string& text) {
  const Bytes size = read_flag("--size", text, parse_bytes);
  if (!(size > Bytes{0})) throw UserError(fmt::format("--size {}: more than 0 expected", text));
  return size;
}

CollectiveLesson lesson_of(const std::string& topic, const TeachFlags& flags) {
  TeachOptions o;
  o.operation = parse_operation(topic);
  o.ranks = flags.ranks;
  o.labels_from = flags.labels_from;
  const TopoMachine machine = machine_of(flags.machine_arguments, o.ranks, o.machine);
  check_root(o.operation, flags.root, o.ranks);
  if (flags.reduction != "sum" && !reduces(o.operation))
    throw UserError(
        fmt::format("--op {}: {} reduces nothing; all-reduce, reduce-scatter and reduce do", flags.reduction, topic));
  o.algorithm = algorithm_of(flags, o.operation);
  o.place = Place::named("--algorithm " + o.algorithm);
  const Node node = choice_node(flags, o.algorithm);
  const CollectiveChoice choice = read_collective(&node, "trainyard teach", o.operation, machine.cluster, o.ranks,
                                                  CollectiveUse::alone, flags.root);
  o.options.settings = choice.settings;
  o.options.settings.reduction = read_flag("--op", flags.reduction, parse_reduction);
  o.options.size = size_of(flags.size);
  o.options.one_stream = flags.blocking;
  o.software = machine.software;
  CollectiveLesson lesson = teach_collective(machine.cluster, o);
  lesson.decimal = asks_decimal(flags.size);
  return lesson;
}

std::function<LessonView()> collective(const std::string& topic, Arguments& arguments) {
  const auto flags = std::make_shared<TeachFlags>();
  arguments.option("--algorithm", flags->algorithm, "NAME", "algorithm: ring, … (trainyard list collectives)");
  arguments.choice("--direction", flags->direction, {"forward", "reversed"}, "forward|reversed",
                   "direction of a ring: to the next rank (forward, the default) or to the previous one");
  arguments.option("--ranks", flags->ranks, "N",
                   "number of ranks, 2 to 16 (default 4); fewer if an algorithm makes too many pieces to show", 2, 16);
  flags->machine_arguments.add_to(arguments, "--on");
  arguments.option("--size", flags->size, "SIZE", "size of the data, as nccl-tests counts it (default 4 MiB)");
  arguments.option("--root", flags->root, "RANK", "root of broadcast, reduce, gather, scatter");
  arguments.option("--op", flags->reduction, "sum|average|maximum|product", "reduction (default sum)");
  arguments.option("--chunk", flags->chunk, "SIZE",
                   "size of the pieces that chains and trees pass on (default 512 KiB)");
  arguments.option("--channels", flags->channels, "N", "number of rings at the same time", 1);
  arguments.option("--listing", flags->listing, "literal",
                   "the ring all-reduce in the textbooks' form: it receives into the slot that it sends");
  arguments.flag("--blocking", flags->blocking,
                 "each rank posts its receive only after its send has ended, as with blocking calls; a ring of such "
                 "ranks deadlocks");
  label_option(arguments, flags->labels_from, "number of the first rank in words, tables and pictures (default 0)");
  return [topic, flags] { return lesson_view(lesson_of(topic, *flags)); };
}

const std::vector<RegisterTeachTopic> registered_collectives = [] {
  std::vector<RegisterTeachTopic> all;
  const auto add = [&all](const std::string& name, const std::string& summary) {
    const std::string operation = name_of(parse_operation(name));
    all.emplace_back(
        TeachTopic{name, summary,
                   fmt::format("Shows every rank's buffers after every step of a{} {}, with the time of each step.",
                               operation.starts_with("a") ? "n" : "", operation),
                   fmt::format("teach {} --ranks 4 --html lesson.html", operation), collective});
  };
  for (int i = 0; i < kOperations; ++i)
    add(name_of(static_cast<Operation>(i)),
        fmt::format("show the buffers of every rank after every step of {}", name_of(static_cast<Operation>(i))));
  for (const char* nccls_word : {"alltoall", "sendrecv"}) add(nccls_word, "");
  return all;
}();

}  // namespace
}  // namespace trainyard

// Collectives in MSCCL's XML (Cowan et al. 2023, MSCCLang): thread blocks of each GPU, with steps that wait for steps of
// other blocks. In each round every block runs one step, if it can. Blocks run in the order of the file.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/imports/xml_element.hpp"
#include "strategies/collectives/collective_file.hpp"

namespace trainyard {
namespace {

using Buffer = StatedChunks::Buffer;

Place place_of(const XmlElement& element) {
  return {std::make_shared<const std::string>(element.place.file), element.place.line, element.place.column};
}

/// Refuses children of another name.
void require_children(const XmlElement& element, std::string_view name) {
  for (const XmlElement& child : element.children)
    if (child.name != name)
      child.place.refuse(fmt::format("<{}> in <{}>; expected <{}>", child.name, element.name, name));
}

constexpr std::array<std::string_view, 9> kTypes{"s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"};

struct BlockStep {
  const XmlElement* element;
  std::string type;
  StatedChunks from, into;
  int block = -1, step = -1;  ///< block and number of the step that must end first; −1: none
  bool receives() const { return type.front() == 'r' && type != "re"; }
  bool sends() const { return type.back() == 's'; }
};

struct Block {
  int gpu, id, send, recv, channel;
  std::vector<BlockStep> steps;
  std::size_t done = 0, done_before = 0;  ///< steps, now and at the beginning of the round
};

class Msccl {
 public:
  Msccl(Operation operation, const XmlElement& algo) : operation_(operation) {
    if (algo.name != "algo") algo.place.refuse(fmt::format("<{}>; expected <algo> (MSCCL)", algo.name));
    std::string stated = algo.text("coll");
    static constexpr std::pair<const char*, Operation> names[] = {{"allreduce", Operation::all_reduce},
                                                                  {"allgather", Operation::all_gather},
                                                                  {"reduce_scatter", Operation::reduce_scatter},
                                                                  {"reducescatter", Operation::reduce_scatter},
                                                                  {"alltoall", Operation::all_to_all}};
    const auto* const named =
        std::find_if(std::begin(names), std::end(names), [&](const auto& name) { return stated == name.first; });
    if (named == std::end(names) || named->second != operation)
      algo.place.refuse(fmt::format("coll=\"{}\"; {} is asked", stated, name_of(operation)));
    ranks_ = algo.integer("ngpus", 2, StatedCollective::kMostRanks);
    in_place_ = algo.has("inplace") && algo.integer("inplace", 0, 1) == 1;
    if (in_place_ && operation == Operation::all_to_all)
      algo.place.refuse("inplace=\"1\"; an all-to-all receives into a buffer of its own");
    require_children(algo, "gpu");
    for (const XmlElement& gpu : algo.children)
      for (const char* key : {"i_chunks", "o_chunks"})
        chunks_ = std::max(chunks_, gpu.integer(key, 0, StatedCollective::kMostChunks));
    if (chunks_ == 0 || (operation != Operation::all_reduce && chunks_ % ranks_ != 0))
      algo.place.refuse(fmt::format("{} chunks for {} ranks; a multiple is expected", chunks_, ranks_));
    if (static_cast<int>(algo.children.size()) != ranks_)
      algo.place.refuse(fmt::format("{} <gpu> elements; ngpus is {}", algo.children.size(), ranks_));
    std::vector<bool> seen(static_cast<std::size_t>(ranks_));
    for (const XmlElement& gpu : algo.children) {
      const int id = gpu.integer("id", 0, ranks_ - 1);
      if (seen[static_cast<std::size_t>(id)]) gpu.place.refuse(fmt::format("gpu {} stands twice", id));
      seen[static_cast<std::size_t>(id)] = true;
      require_children(gpu, "tb");
      for (const XmlElement& block : gpu.children) read_block(id, block);
    }
  }

  StatedCollective run() {
    StatedCollective made(operation_, ranks_, chunks_, !in_place_);
    bool progress = true;
    for (round_ = 1; progress; ++round_) {
      progress = false;
      for (Block& block : blocks_) block.done_before = block.done;
      for (Block& block : blocks_)
        if (block.done < block.steps.size() && why_waits(block).empty()) {
          execute(made, block);
          progress = true;
        }
    }
    for (const Block& block : blocks_)
      if (block.done < block.steps.size())
        block.steps[block.done].element->place.refuse(
            fmt::format("deadlock: this step of gpu {}, block {} never runs: it waits for {}", block.gpu, block.id,
                        why_waits(block)));
    for (const auto& [ends, queue] : under_way_)
      if (!queue.empty())
        queue.front().step->place.refuse(
            fmt::format("gpu {} never receives what this step of gpu {} sends", ends.second, ends.first));
    return made;
  }

 private:
  struct UnderWay {
    int channel, round;
    const XmlElement* step;
  };
  Operation operation_;
  int ranks_ = 0, chunks_ = 0, round_ = 0;
  bool in_place_ = false;
  std::vector<Block> blocks_;
  std::map<std::pair<int, int>, std::deque<UnderWay>> under_way_;

  StatedChunks chunks(int gpu, const XmlElement& step, const std::string& end, int count) const {
    const std::string& name = step.text(end + "buf");
    StatedChunks range{Buffer::data, step.integer(end + "off", 0, StatedCollective::kMostChunks), count};
    const int share = chunks_ / ranks_;
    // A rank's own block, which is the whole input of an all-gather and the whole output of a reduce-scatter.
    const bool own_input = operation_ == Operation::all_gather && name == "i",
               own_output = operation_ == Operation::reduce_scatter && name == "o";
    if (name == "i" && !in_place_) range.buffer = Buffer::input;
    if (name == "s") range.buffer = Buffer::scratch;
    if (name != "i" && name != "o" && name != "s")
      step.place.refuse(fmt::format("{}buf=\"{}\"; expected i, o or s", end, name));
    const int most = own_input || own_output ? share : chunks_;
    if (range.first + count > most)
      step.place.refuse(fmt::format("{}off=\"{}\" cnt=\"{}\"; {} has {} chunks{}", end, range.first, count, name, most,
                                    name == "s" ? " (more scratch is not modelled)" : ""));
    if (own_input || own_output) range.first += gpu * share;
    return range;
  }

  void read_block(int gpu, const XmlElement& element) {
    Block block{gpu,
                element.integer("id", 0, 1 << 16),
                element.integer("send", -1, ranks_ - 1),
                element.integer("recv", -1, ranks_ - 1),
                element.has("chan") ? element.integer("chan", 0, 1 << 16) : 0,
                {}};
    require_children(element, "step");
    for (const XmlElement& child : element.children) {
      BlockStep step{&child, child.text("type"), {}, {}};
      if (std::ranges::find(kTypes, step.type) == kTypes.end())
        child.place.refuse(fmt::format("type=\"{}\"; expected {}", step.type, fmt::join(kTypes, ", ")));
      if (step.sends() && (block.send < 0 || block.send == gpu))
        child.place.refuse(fmt::format("type=\"{}\" in a block with send=\"{}\"", step.type, block.send));
      if (step.receives() && (block.recv < 0 || block.recv == gpu))
        child.place.refuse(fmt::format("type=\"{}\" in a block with recv=\"{}\"", step.type, block.recv));
      if (step.type != "nop") {
        const int count = child.integer("cnt", 1, chunks_);
        if (step.type != "r" && step.type != "rcs") step.from = chunks(gpu, child, "src", count);
        if (step.type != "s" && step.type != "rrs") step.into = chunks(gpu, child, "dst", count);
      }
      if (child.has("depid")) step.block = child.integer("depid", -1, 1 << 16);
      if (step.block >= 0) step.step = child.integer("deps", 0, 1 << 16);
      block.steps.push_back(step);
    }
    blocks_.push_back(std::move(block));
  }

  /// Returns what the next step of the block waits for; "": nothing.
  std::string why_waits(const Block& block) const {
    const BlockStep& step = block.steps[block.done];
    if (step.block >= 0) {
      const auto other =
          std::ranges::find_if(blocks_, [&](const Block& b) { return b.gpu == block.gpu && b.id == step.block; });
      if (other == blocks_.end() || static_cast<int>(other->done_before) <= step.step)
        return fmt::format("step {} of block {}", step.step, step.block);
    }
    if (!step.receives()) return "";
    const auto queue = under_way_.find({block.recv, block.gpu});
    if (queue == under_way_.end() || queue->second.empty() || queue->second.front().round == round_)
      return fmt::format("a message from gpu {}", block.recv);
    if (queue->second.front().channel != block.channel)
      return fmt::format("a message from gpu {} on channel {}, but one on channel {} comes before it", block.recv,
                         block.channel, queue->second.front().channel);
    return "";
  }

  void execute(StatedCollective& made, Block& block) {
    const BlockStep& step = block.steps[block.done++];
    const Place place = place_of(*step.element);
    const int gpu = block.gpu;
    StatedChunks sent = step.receives() ? step.into : step.from;
    if (step.receives()) under_way_[{block.recv, gpu}].pop_front();
    if (step.type == "r" || step.type == "rcs") made.receive(block.recv, gpu, step.into, false, place);
    if (step.type == "rrc" || step.type == "rrcs") {
      if (!(step.from == step.into)) made.copy(gpu, step.from, step.into, false, place);
      made.receive(block.recv, gpu, step.into, true, place);
    }
    if (step.type == "rrs") {  // the sum is sent and not kept
      sent = {Buffer::aside, step.from.first, step.from.count};
      made.receive(block.recv, gpu, sent, false, place);
      made.copy(gpu, step.from, sent, true, place);
    }
    if (step.type == "cpy" || step.type == "re") made.copy(gpu, step.from, step.into, step.type == "re", place);
    if (!step.sends()) return;
    made.send(gpu, block.send, sent, true, place);
    under_way_[{gpu, block.send}].push_back({block.channel, round_, step.element});
  }
};

}  // namespace

StatedCollective read_msccl(Operation operation, const std::string& text, const std::string& file) {
  return Msccl(operation, read_xml(text, file)).run();
}

}  // namespace trainyard

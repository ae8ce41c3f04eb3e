// Input from the storage to the GPU: readers, and loaders that receive, decode and copy. Both sides of a message must
// be ready before it moves (rendezvous): a reader's send waits until the loader has room, a loader's send until the
// GPU has room.
#include "models/software/training_memory.hpp"
#include "strategies/collectives/emitter.hpp"
#include "strategies/plan/input_plan.hpp"

namespace trainyard {
namespace {

class InputReader : public CoroutineProgram {
 public:
  InputReader(const InputPlan& plan, std::size_t loader, const InputNames& words)
      : CoroutineProgram({plan.loaders[loader].self}, 1),
        plan_(plan),
        words_(words),
        readers_(static_cast<double>(plan.loaders[loader].readers.size())) {}

 protected:
  Ops run() override {
    for (int batch = 0; batch < plan_.batches; ++batch) {
      if (plan_.read_of(batch).value == 0) continue;
      const Op op{.kind = Kind::send,
                  .group = words_.read,
                  .message = {.bytes = plan_.read_of(batch) / readers_},
                  .name = words_.reading};
      co_yield op;
    }
  }

 private:
  const InputPlan& plan_;
  const InputNames& words_;
  double readers_;
};

class InputLoader : public CoroutineProgram {
 public:
  InputLoader(const InputPlan& plan, std::size_t loader, const InputNames& words)
      : CoroutineProgram(peers(plan.loaders[loader]), streams(plan, plan.loaders[loader])),
        plan_(plan),
        words_(words),
        readers_(plan.loaders[loader].readers.size()),
        ranks_(plan.loaders[loader].ranks.size()),
        copied_(depth()) {}

 protected:
  Ops run() override {
    for (int batch = 0; batch < plan_.batches; ++batch) {
      Dep begin = room_for(batch);
      if (plan_.overlap == InputOverlap::none) {
        co_yield ask(begin);
        begin = out_.last_operation(kAsk);
      }
      on_host_ = begin;
      co_yield read(begin, batch);
      if (plan_.decodes) co_yield decode(batch);
      co_yield copy(batch);
    }
  }

 private:
  /// Streams of their own for marks that wait for several operations, so that no lane waits for another one.
  static constexpr Stream kAsk = 0, kReadEnd = 1, kCopyEnd = 2, kFirstRead = 3;

  const InputPlan& plan_;
  const InputNames& words_;
  std::size_t readers_, ranks_;
  Emitter out_;
  Dep on_host_;              // the batch is on the host: its copy waits for this
  std::vector<Dep> copied_;  // indexed by place on the host: end of the last copy from there

  static std::vector<Actor> peers(const InputPlan::Loader& loader) {
    std::vector<Actor> all = loader.readers;
    all.insert(all.end(), loader.ranks.begin(), loader.ranks.end());
    return all;
  }
  static int streams(const InputPlan& plan, const InputPlan::Loader& loader) {
    return kFirstRead + static_cast<int>(loader.readers.size() + loader.ranks.size()) + plan.lanes;
  }
  Stream lane(int batch) const {
    return static_cast<Stream>(kFirstRead + readers_ + static_cast<std::size_t>(batch % plan_.lanes));
  }
  Stream copying(std::size_t rank) const {
    return static_cast<Stream>(kFirstRead + readers_ + static_cast<std::size_t>(plan_.lanes) + rank);
  }
  std::size_t depth() const {
    return plan_.overlap == InputOverlap::full ? static_cast<std::size_t>(plan_.prefetch) : 1;
  }
  /// The end of the copy of the batch whose place on the host this one takes.
  Dep room_for(int batch) const { return copied_[static_cast<std::size_t>(batch) % depth()]; }

  Ops ask(Dep after) {
    Op& op = out_.begin(Kind::recv, kAsk, words_.asked, words_.copy, after);
    op.address(readers_, kInputMessages);
    co_yield out_.emit();
  }

  /// Receives the batch from the readers, after `begin`.
  Ops read(Dep begin, int batch) {
    if (plan_.read_of(batch).value == 0) co_return;
    for (std::size_t reader = 0; reader < readers_; ++reader) {
      Op& op = out_.begin(Kind::recv, static_cast<Stream>(kFirstRead + reader), words_.reading, words_.read, begin);
      op.message.slot = static_cast<std::uint16_t>(reader);
      if (reader == 0) hold(op, plan_.stored);
      co_yield out_.emit();
    }
    co_yield join(kReadEnd, kFirstRead, readers_, {});
    on_host_ = out_.last_operation(kReadEnd);
  }

  Ops decode(int batch) {
    Op& op = out_.begin(Kind::compute, lane(batch), words_.decoding, words_.decode, on_host_);
    op.work = plan_.decode;
    hold(op, plan_.on_gpu);
    co_yield out_.emit();
    on_host_ = out_.last_operation(lane(batch));
  }

  Ops copy(int batch) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      Op& op = out_.begin(Kind::send, copying(rank), words_.copying, words_.copy, on_host_);
      op.message.bytes = plan_.on_gpu;
      op.address(readers_ + rank, kInputMessages);
      co_yield out_.emit();
    }
    Bytes host_bytes;
    if (plan_.read_of(batch).value > 0) host_bytes += plan_.stored;
    if (plan_.decodes) host_bytes += plan_.on_gpu;
    co_yield join(kCopyEnd, copying(0), ranks_, -host_bytes);
    copied_[static_cast<std::size_t>(batch) % depth()] = out_.last_operation(kCopyEnd);
  }

  /// Waits for the latest operations of `count` streams, two with each mark. The last mark takes or gives back host
  /// memory.
  Ops join(Stream marks, Stream first, std::size_t count, Bytes change) {
    for (std::size_t i = 0; i < count; i += 2) {
      Op& op = out_.begin(Kind::mark, marks, words_.wait_for_messages, 0,
                          out_.last_operation(static_cast<Stream>(first + i)));
      if (i + 1 < count) op.deps[1] = out_.last_operation(static_cast<Stream>(first + i + 1));
      if (i + 2 >= count) hold(op, change);
      co_yield out_.emit();
    }
  }

  static void hold(Op& op, Bytes change) { op.book_memory(change.value, MemoryClass::buffers); }
};

}  // namespace

const char* name_of(InputOverlap overlap) {
  static constexpr const char* names[] = {"none", "prefetch", "full"};
  return names[static_cast<std::size_t>(overlap)];
}

std::unique_ptr<Program> input_loader(const InputPlan& plan, std::size_t loader, const InputNames& words) {
  return std::make_unique<InputLoader>(plan, loader, words);
}
std::unique_ptr<Program> input_reader(const InputPlan& plan, std::size_t loader, const InputNames& words) {
  return std::make_unique<InputReader>(plan, loader, words);
}

}  // namespace trainyard

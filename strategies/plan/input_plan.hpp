#pragma once
#include <memory>
#include <vector>

#include "sim/names.hpp"
#include "sim/program.hpp"

namespace trainyard {

/// What of a batch's way from the storage to the GPU goes on beside what. none: everything when the step asks for it.
/// prefetch: one lane reads, decodes and copies batches in a row while the GPU computes. full: reading, decoding and
/// copying are lanes of their own (Murray et al. 2021, tf.data).
enum class InputOverlap : std::uint8_t { none, prefetch, full };
const char* name_of(InputOverlap);

/// How the ranks of the first pipeline stage come to their samples: a loader on the host for each group of ranks with
/// the same samples, its readers at the storage, and its share of the node's workers.
struct InputPlan {
  struct Loader {
    Actor self = 0;
    std::vector<Actor> readers;  ///< each gives an even part of what is read
    std::vector<Actor> ranks;    ///< to which every batch is copied
  };
  std::vector<Loader> loaders;
  InputOverlap overlap = InputOverlap::full;
  /// Depth of the bounded buffers: batches that wait on a GPU besides the one in use, and (full) batches on the host,
  /// from the beginning of their reading to the end of their copying.
  int prefetch = 2;
  int batches = 1;          ///< micro-batches of a loader, over all steps
  std::vector<Bytes> read;  ///< that the storage gives of a batch; batches take them in turn. 0: the host has it
  Bytes stored;             ///< of a batch, as it lies in host memory before it is decoded
  Bytes on_gpu;             ///< of a batch, as it is copied
  Work decode;              ///< of a batch, by each of the workers that share it
  bool decodes = false;
  int lanes = 1;  ///< batches that are decoded at the same time: more than one where workers outnumber samples

  bool used() const { return !loaders.empty(); }
  Bytes read_of(int batch) const { return read[static_cast<std::size_t>(batch) % read.size()]; }
  /// Batches that a GPU holds ahead of the one in use.
  int ahead() const { return overlap == InputOverlap::none ? 0 : prefetch; }
};

/// Messages of a loader to its ranks, and (InputOverlap::none) back.
constexpr Tag kInputMessages = Tag{30} << 27;
/// Work::kernel of decoding: its bytes are stored ones, of one worker.
constexpr std::uint16_t kDecode = 1003;

/// Groups of what loaders wait for.
constexpr const char* kReadGroup = "read";
constexpr const char* kCopyGroup = "copy to the GPU";

struct InputWords {
  Names& names;
  GroupId read = names.group(kReadGroup, Role::point_to_point);
  GroupId decode = names.group("decode", Role::work);
  GroupId copy = names.group(kCopyGroup, Role::point_to_point);
  NameId reading = names.intern("read from the storage");
  NameId decoding = names.intern("decode");
  NameId copying = names.intern("copy to the GPU");
  NameId asked = names.intern("asked for a batch");
  NameId wait_for_messages = names.intern("wait for messages");

  explicit InputWords(Names& all) : names(all) {}
};

/// All batches of one loader, and of one of its readers. The plan must outlive them.
std::unique_ptr<Program> input_loader(const InputPlan&, std::size_t loader, const InputWords&);
std::unique_ptr<Program> input_reader(const InputPlan&, std::size_t loader, const InputWords&);

}  // namespace trainyard

#pragma once
#include <memory>
#include <vector>

#include "sim/names.hpp"
#include "sim/program.hpp"

namespace trainyard {

/// Overlap of the input pipeline, from the storage to the GPU. none: every stage runs when the step asks for the
/// batch. prefetch: one lane reads, decodes and copies batches, one after the other, while the GPU computes. full:
/// reading, decoding and copying are separate lanes (Murray et al. 2021, tf.data).
enum class InputOverlap : std::uint8_t { none, prefetch, full };
const char* name_of(InputOverlap);

/// The input of the ranks of the first pipeline stage. Each group of ranks with the same samples has a loader on the
/// host, with its readers at the storage and its share of the node's workers.
struct InputPlan {
  struct Loader {
    Actor self = 0;
    std::vector<Actor> readers;  ///< each sends an equal part of the data read
    std::vector<Actor> ranks;    ///< every batch is copied to each of them
  };
  std::vector<Loader> loaders;
  InputOverlap overlap = InputOverlap::full;
  /// Capacity of each bounded buffer, in batches. On a GPU, the batch in use does not count. With `full`, a batch has a
  /// place on the host from the beginning of its reading to the end of its copy.
  int prefetch = 2;
  int batches = 1;  ///< number of micro-batches of a loader, over all steps
  /// Bytes that the storage sends for a batch. Batch b has entry b modulo the number of entries. 0: the host has the
  /// data.
  std::vector<Bytes> read;
  Bytes stored;  ///< size of a batch in host memory before it is decoded
  Bytes on_gpu;  ///< size of a batch as it is copied to the GPU
  Work decode;   ///< work of each of the workers that decode a batch together
  bool decodes = false;
  int lanes = 1;  ///< number of batches decoded at the same time: above one if workers outnumber samples

  bool is_used() const { return !loaders.empty(); }
  Bytes read_of(int batch) const { return read[static_cast<std::size_t>(batch) % read.size()]; }
  /// Number of batches that a GPU holds ahead of the one in use.
  int ahead() const { return overlap == InputOverlap::none ? 0 : prefetch; }
};

/// Tag of messages from a loader to its ranks, and (InputOverlap::none) back.
constexpr Tag kInputMessages = Tag{30} << 27;
/// Work::kernel of decoding. Work::bytes are the stored bytes that one worker decodes.
constexpr std::uint16_t kDecode = 1003;

/// Groups of the operations that loaders wait for.
constexpr const char* kReadGroup = "read";
constexpr const char* kCopyGroup = "copy to the GPU";

struct InputNames {
  Names& names;
  GroupId read = names.group(kReadGroup, Role::point_to_point);
  GroupId decode = names.group("decode", Role::work);
  GroupId copy = names.group(kCopyGroup, Role::point_to_point);
  NameId reading = names.intern("read from the storage");
  NameId decoding = names.intern("decode");
  NameId copying = names.intern("copy to the GPU");
  NameId asked = names.intern("asked for a batch");
  NameId wait_for_messages = names.intern("wait for messages");

  explicit InputNames(Names& all) : names(all) {}
};

/// Make the programs of one loader, and of one of its readers, for all batches. The plan must outlive them.
std::unique_ptr<Program> input_loader(const InputPlan&, std::size_t loader, const InputNames&);
std::unique_ptr<Program> input_reader(const InputPlan&, std::size_t loader, const InputNames&);

}  // namespace trainyard

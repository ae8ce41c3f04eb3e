#pragma once
#include "sim/op.hpp"

namespace trainyard {

/// One half of a message, rendezvous and without an effect.
inline Op message_op(Kind kind, std::size_t stream, std::size_t slot, Tag tag, Bytes bytes) {
  Op op;
  op.kind = kind;
  op.stream = static_cast<Stream>(stream);
  op.message.slot = static_cast<std::uint16_t>(slot);
  op.message.tag = tag;
  op.message.bytes = bytes;
  return op;
}

}  // namespace trainyard

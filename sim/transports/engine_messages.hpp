#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/transports/packet_network.hpp"

namespace trainyard {

/// A simulation and the process of its engine (sim/simgrid) take turns. The engine says how far its clock has come and waits
/// for the answer; the simulation gives orders to the transport, and answers.
enum class EngineWord : std::uint8_t {
  step,          ///< engine: now, shares of links, flows that have ended. Answer: the time of the next timer, or −1
  ended,         ///< engine: nothing will happen any more
  failed,        ///< engine: why, which is the user's to mend
  remaining,     ///< simulation: the flow. Answer: bytes
  go_on,         ///< simulation: the answer
  new_route,     ///< simulation: the links of the next number
  send,          ///< simulation: flow, route, bytes, rate cap
  cancel,        ///< simulation: flow
  set_capacity,  ///< simulation: link, rate
};

/// Numbers, texts and lists one after the other, read in the order in which they were added.
class EngineMessage {
 public:
  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void add_list(std::span<const T> list) {
    static_assert(std::is_trivially_copyable_v<T>);
    add(list.size());
    bytes_.append(reinterpret_cast<const char*>(list.data()), list.size_bytes());
  }
  void add_text(std::string_view text) { add_list(std::span<const char>(text)); }

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.data() + read_, sizeof value);
    read_ += sizeof value;
    return value;
  }
  template <class T>
  std::vector<T> take_list() {
    std::vector<T> list(take<std::size_t>());
    if (!list.empty()) std::memcpy(list.data(), bytes_.data() + read_, list.size() * sizeof(T));
    read_ += list.size() * sizeof(T);
    return list;
  }
  std::string take_text() {
    const std::vector<char> text = take_list<char>();
    return {text.begin(), text.end()};
  }

  bool at_end() const { return read_ == bytes_.size(); }
  void clear() {
    bytes_.clear();
    read_ = 0;
  }

  /// Writes all to a socket, and is empty then. False: nobody reads there.
  bool write(int socket);
  /// Waits for the next message. False: nobody writes there any more.
  bool read(int socket);

 private:
  std::string bytes_;
  std::size_t read_ = 0;
};

/// The links and the network that an engine is started with.
struct EngineSetup {
  bool packets = false;
  std::vector<Link> links;  ///< without kinds
  PacketNetwork network;    ///< of packets
};
void add_setup(EngineMessage&, bool packets, std::span<const Link>, const PacketNetwork&);
EngineSetup take_setup(EngineMessage&);

}  // namespace trainyard

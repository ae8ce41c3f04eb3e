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

/// Messages between a simulation and the process of its engine (sim/simgrid), which take turns. The engine reports its
/// clock and waits for the answer. The simulation gives orders to the transport, and answers.
enum class EngineMessageType : std::uint8_t {
  step,   ///< engine: the time, shares of links, and flows that have ended. Answer: the time of the next timer, or −1
  ended,  ///< engine: nothing will happen any more
  failed,        ///< engine: the reason for a failure that the user can repair
  remaining,     ///< simulation: the flow. Answer: its bytes left
  go_on,         ///< simulation: the answer to a step
  new_route,     ///< simulation: the links of the route with the next number
  send,          ///< simulation: flow, route, bytes, rate cap
  cancel,        ///< simulation: flow
  set_capacity,  ///< simulation: link, rate
};

/// Numbers, texts and lists one after the other, read in the order in which they were added.
class EngineMessage {
 public:
  template <class... T>
  void add(const T&... values) {
    static_assert((std::is_trivially_copyable_v<T> && ...));
    (bytes_.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
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

  /// Writes everything to a socket, and clears the message. Returns false if nobody reads there.
  bool write(int socket);
  /// Waits for the next message. Returns false if nobody writes there any more.
  bool read(int socket);

 private:
  std::string bytes_;
  std::size_t read_ = 0;
};

/// The links and the network with which an engine is started.
struct EngineSetup {
  bool packets = false;
  std::vector<Link> links;  ///< without kinds
  PacketNetwork network;    ///< for packets only
};
void add_setup(EngineMessage&, bool packets, std::span<const Link>, const PacketNetwork&);
EngineSetup take_setup(EngineMessage&);

}  // namespace trainyard

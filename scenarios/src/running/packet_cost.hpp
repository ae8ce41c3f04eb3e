#pragma once
#include <string>

#include "scenarios/src/answer/result.hpp"
#include "sim/error.hpp"

namespace trainyard {

/// What a simulation packet by packet handles.
struct PacketCost {
  double crossings = 0;  ///< bytes, as often as they cross a cable
  double messages = 0;   ///< each is a TCP connection

  PacketCost& operator+=(const PacketCost& other) {
    crossings += other.crossings;
    messages += other.messages;
    return *this;
  }
  double packets() const;     ///< of data, each as often as it crosses a cable
  Seconds processor() const;  ///< an estimate, within a factor of two or three
  /// Before a long one, on the terminal: how many packets, how long. Nothing where it takes seconds.
  void announce() const;
};

/// Throws UserError where a simulation by packets died, else the error itself.
[[noreturn]] void rethrow_as_of_ns3(const InternalError&);

/// Of as many steps as the answer by the default transport simulated.
PacketCost packet_cost(const Result& by_flows);

/// Runs work by packets. ns-3's TCP has bugs that end its process; then throws UserError, since it is none of ours.
template <class Work>
auto by_ns3(const Work& work) {
  try {
    return work();
  } catch (const InternalError& error) {
    rethrow_as_of_ns3(error);
  }
}

/// What packets show that flows do not, to stand below times by both.
std::string packets_in_words();

}  // namespace trainyard

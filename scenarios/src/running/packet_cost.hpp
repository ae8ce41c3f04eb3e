#pragma once
#include <string>

#include "scenarios/src/answer/result.hpp"

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

struct Scenario;

/// Throws UserError where packets cannot be of the scenario's network or plan.
void require_packets(const Scenario&);

/// Of as many steps as the answer by the default transport simulated.
PacketCost packet_cost(const Result& by_flows);

/// What packets show that flows do not, to stand below times by both.
std::string packets_in_words();

}  // namespace trainyard

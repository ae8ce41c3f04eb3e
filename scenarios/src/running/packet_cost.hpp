#pragma once
#include <string>

#include "scenarios/src/answer/result.hpp"

namespace trainyard {

/// The size of a simulation packet by packet.
struct PacketCost {
  double crossings = 0;  ///< bytes, counted each time that they cross a cable
  double messages = 0;   ///< number of messages, each of which is a TCP connection

  PacketCost& operator+=(const PacketCost& other) {
    crossings += other.crossings;
    messages += other.messages;
    return *this;
  }
  double packets() const;     ///< number of data packets, counted each time that they cross a cable
  Seconds processor() const;  ///< estimated processor time, within a factor of two or three
  /// Prints the number of packets and the processor time on the terminal, if the simulation takes 10 s or more.
  void announce() const;
};

struct Scenario;

/// Throws UserError if the scenario's network or plan cannot be simulated packet by packet.
void require_packets(const Scenario&);

/// Estimates the cost of the same steps packet by packet. `by_flows`: the answer by the default transport.
PacketCost packet_cost(const Result& by_flows);

/// Explains the effects that packets show and flows do not, for a report with times by both.
std::string packets_in_words();

}  // namespace trainyard

#include "models/hardware/frame_loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

/// The means by which switches with full buffers drop no frames.
enum class FlowControl : std::uint8_t {
  credits,  // a sender needs credit for each frame (InfiniBand)
  pfc,      // a switch pauses the senders of a priority (IEEE 802.1Qbb)
  none,     // nothing: frames get lost
};

constexpr double kMostLoss = 0.5;  // a network that loses more carries no training
// Data in a frame of Ethernet's usual 1500 bytes: a RoCE frame is a power of two of at most 4096 (InfiniBand
// Architecture Specification, path MTU), a TCP segment has headers of 40 bytes (RFC 9293).
constexpr Bytes kRdmaFrame{1024}, kTcpSegment{1460};
constexpr int kMostConnections = 1024;

FlowControl usual_flow_control(bool tcp, const std::string& network) {
  if (tcp) return FlowControl::none;
  if (network == "roce") return FlowControl::pfc;
  return network.empty() || network == "infiniband" ? FlowControl::credits : FlowControl::none;
}

}  // namespace

BytesPerSecond delivered_rate(BytesPerSecond rate, const FrameLoss& loss, Seconds round_trip) {
  const double p = loss.share;
  if (p == 0) return rate;
  if (loss.recovery == LossRecovery::go_back_n) {
    const double window = 1 + rate * round_trip / loss.frame;
    return rate * ((1 - p) / (1 - p + p * window));
  }
  BytesPerSecond delivered = rate * (1 - p);
  if (loss.tcp_connections > 0 && round_trip.value > 0)
    delivered = std::min(delivered, loss.frame / round_trip * (std::sqrt(1.5 / p) * loss.tcp_connections));
  return delivered;
}

FrameLoss read_frame_loss(Fields& fields, bool tcp, const std::string& network) {
  const FlowControl usual = usual_flow_control(tcp, network);
  const auto flow_control =
      fields.one_of<FlowControl>({"flow_control",
                                  "What keeps switches from dropping frames: credits (InfiniBand), pfc (RoCE), or "
                                  "none, with which loss may be set; by itself it changes no time."},
                                 {"credits", "pfc", "none"}, usual);
  if (tcp && flow_control != FlowControl::none)
    fields.refuse("flow_control", "not with transport tcp or grpc, which expects losses; credits and pfc are for rdma");
  FrameLoss loss;
  loss.share =
      fields.number({"loss", "Share of the frames that the network loses, for example 1e-4, with flow_control none."},
                    0, kMostLoss, 0);
  if (loss.share > 0 && flow_control != FlowControl::none)
    fields.refuse("loss", fmt::format("{}, but with flow_control {} {}; expected flow_control: none", loss.share,
                                      flow_control == FlowControl::pfc ? "pfc" : "credits",
                                      flow_control == FlowControl::pfc
                                          ? "the switches pause the senders before a frame is lost"
                                          : "an adapter sends no frame that has no room (InfiniBand)"));
  // Networks with protocols of their own (EFA, Slingshot, GPUDirect-TCPX) repeat the lost frames alone.
  const bool repeats_all = !tcp && (usual != FlowControl::none);
  loss.recovery = fields.one_of<LossRecovery>(
      {"recovery",
       "What is sent again after a loss: go-back-n: the frame and all behind it (RoCE); selective-repeat: it alone."},
      {"go-back-n", "selective-repeat"}, repeats_all ? LossRecovery::go_back_n : LossRecovery::selective_repeat);
  if (tcp && loss.recovery == LossRecovery::go_back_n)
    fields.refuse("recovery", "TCP acknowledges selectively; expected selective-repeat");
  loss.frame =
      fields.bytes({"frame", "Data in a frame: 1 KiB by RoCE, 1460 B by TCP."}, tcp ? kTcpSegment : kRdmaFrame);
  const int connections = fields.integer_within<int>(
      {"connections", "TCP connections over which an adapter spreads its data, which a loss slows one by one."}, 1,
      kMostConnections, 1);
  for (const char* key : {"recovery", "frame"}) fields.require_condition(key, fields.has("loss"), "with loss");
  fields.require_condition("connections", tcp, "with transport tcp or grpc");
  loss.tcp_connections = tcp ? connections : 0;
  return loss;
}

}  // namespace trainyard

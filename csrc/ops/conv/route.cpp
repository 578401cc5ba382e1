#include "ops/conv/route.h"

#include "ops/matmul/kernels/bf16x3.h"

namespace aule::ops {
namespace {

ImplicitGemmSizes sizes_of(const ConvProblem& p) {
  return {p.g, p.dtype, p.images, p.channels, p.out_channels, p.groups};
}

// Whether the device has kernels of gathered tiles for both kinds of results.
bool has_gathers(const DeviceProfile& profile, const MatrixUnits& units, DType dtype) {
  return implicit_gemm_plan(profile, units, {dtype, /*makes_weights=*/false, 64, 64, 64, 64, 1}) &&
         implicit_gemm_plan(profile, units, {dtype, /*makes_weights=*/true, 64, 64, 64, 64, 1});
}

// The convolution over blocks of places that makes a pass, if that is cheaper and gathered tiles take it.
std::optional<BlocksPlan> in_blocks(const DeviceProfile& profile, const ConvProblem& p, ConvPass pass) {
  if (p.groups != 1) return std::nullopt;
  auto plan = blocks_plan(p.g, p.dtype, pass, p.images, p.channels);
  if (plan && !implicit_gemm_takes(profile, {plan->g, p.dtype, p.images, plan->padded, p.out_channels, 1}))
    return std::nullopt;
  return plan;
}

// Few channels may be many in blocks, in every pass if in that of the weight.
bool gathers_serve(const DeviceProfile& profile, const MatrixUnits& units, const ConvProblem& p) {
  if (!implicit_gemm_takes(profile, sizes_of(p)) && !in_blocks(profile, p, ConvPass::weight)) return false;
  return has_gathers(profile, units, p.dtype);
}

double multiplications(const ConvProblem& p) {
  const int64_t each = p.g.taps() * p.channels * p.out_channels;
  return static_cast<double>(p.images * p.g.positions()) * static_cast<double>(each);
}

// From this number of multiplications on, launches that pack a weight, or convert operands, are worth it: below it a
// step of small convolutions is bound by the host, which records them.
constexpr double kLeastToConvert = 1 << 30;

// Whether float32 may be multiplied as scaled halves.
bool may_scale(const DeviceProfile& profile, const ConvProblem& p, const Overrides& overrides) {
  if (p.dtype != DType::f32 || p.precision != Float32Precision::high || p.groups != 1) return false;
  if (!may_take_bf16x3(profile) || overrides.scaled_halves == ScaledHalves::never) return false;
  return overrides.scaled_halves == ScaledHalves::always || multiplications(p) >= kLeastToConvert;
}

// Whether products of gathered tiles multiply float32 so. One tap: operands are converted for it alone.
bool gathers_halves(const DeviceProfile& profile, const ConvUnits& units, const ConvProblem& p,
                    const Overrides& overrides) {
  constexpr int64_t kLeastChannels = 128;  // of a one-tap product, whose operands are read and written once more
  if (!may_scale(profile, p, overrides)) return false;
  if (p.g.taps() == 1 && overrides.scaled_halves == ScaledHalves::by_cost &&
      std::min(p.channels, p.out_channels) < kLeastChannels)
    return false;
  ImplicitGemmSizes sizes = sizes_of(p);
  sizes.dtype = DType::f16;
  return implicit_gemm_takes(profile, sizes) && has_gathers(profile, units.of_halves, DType::f16);
}

// Products of pieces that make one of float32 for these sizes: 3, 1, or 0, which is float32's own arithmetic.
int products_of_pieces(const DeviceProfile& profile, const MatrixUnits& units, const ConvProblem& p,
                       const Overrides& overrides) {
  if (p.dtype != DType::f32 || p.groups != 1 || !may_take_bf16x3(profile)) return 0;
  if (p.precision == Float32Precision::highest) return 0;
  if (piece_dtype(overrides) == DType::bf16 && multiplications(p) < kLeastToConvert) return 0;
  const int products = p.precision == Float32Precision::high ? 3 : 1;
  ImplicitGemmSizes all = sizes_of(p);
  all.dtype = piece_dtype(overrides);
  all.images *= products;
  all.channels *= products;
  all.out_channels *= products;
  return implicit_gemm_takes(profile, all) && has_gathers(profile, units, all.dtype) ? products : 0;
}

// One tap, no padding, one group.
bool is_pointwise(const ConvProblem& p) {
  return p.groups == 1 && p.g.taps() == 1 && p.g.pad == ConvGeometry::Extent{0, 0, 0};
}

// Whether tiles with a halo are faster than gathered ones, as they were on an H200 (docs/ladders/halo_conv.md).
bool halo_pays(const ConvProblem& p, const HaloWeightPlan&) { return p.g.stride == ConvGeometry::Extent{1, 1, 1}; }
bool halo_pays(const ConvProblem& p, const HaloConvPlan& plan) {
  const bool enough = multiplications(p) >= kLeastToConvert;
  if (p.g.stride != ConvGeometry::Extent{1, 1, 1}) return p.pass == ConvPass::input && plan.ordered && enough;
  constexpr double kLeastFilled = 0.75;  // of tiles, by channels
  const int64_t bn = plan.tile.bn, bk = plan.tile.bk,
                summed = p.pass == ConvPass::input ? p.out_channels : p.channels,
                results = p.pass == ConvPass::input ? p.channels : p.out_channels;
  const double filled = static_cast<double>(summed * results) /
                        static_cast<double>(round_up(summed, bk) * round_up(results, bn));
  return plan.direct && filled >= kLeastFilled && enough;
}

// Sizes like the measured ones: planes, kernels of several rows and columns, channels that fill tiles, and few enough
// positions of padding, which are computed too.
bool is_like_measured(const HaloProblem& p, uint32_t strips) {
  const ConvGeometry& g = p.g;
  if (g.size[0] != 1 || g.out_size[0] != 1 || g.kernel[0] != 1 || g.kernel[1] == 1 || g.kernel[2] == 1) return false;
  if (std::min(p.channels, p.out_channels) < 32) return false;
  const FlatPositions flat = flat_positions(p, strips);
  const uint64_t computed = flat.count * (p.pass == ConvPass::input ? flat.phases() : 1);
  return static_cast<double>(computed) <= 1.6 * static_cast<double>(p.images * ConvGeometry::volume(flat.places));
}

template <class Plan>
std::optional<ConvPlan> plan_that_pays(const std::optional<Plan>& plan, const ConvProblem& p, const HaloProblem& halo,
                                       const Overrides& overrides) {
  if (!plan) return std::nullopt;
  if (overrides.halo_conv == HaloConv::by_cost && !(is_like_measured(halo, plan->strips) && halo_pays(p, *plan)))
    return std::nullopt;
  return ConvPlan{*plan};
}

std::optional<ConvPlan> halo_plan(const DeviceProfile& profile, const MatrixUnits& units, const ConvProblem& p,
                                  const Overrides& overrides) {
  if (p.groups != 1 || overrides.halo_conv == HaloConv::never) return std::nullopt;
  if (p.dtype == DType::f32 && !may_scale(profile, p, overrides)) return std::nullopt;
  const HaloProblem halo{p.g, p.pass, p.dtype, p.images, p.channels, p.out_channels};
  if (p.pass == ConvPass::weight)
    return plan_that_pays(halo_weight_plan(profile, units, halo, overrides), p, halo, overrides);
  return plan_that_pays(halo_conv_plan(profile, units, halo, overrides), p, halo, overrides);
}

ConvPlan gathered_plan(const DeviceProfile& profile, const ConvUnits& units, const ConvProblem& p,
                       const Overrides& overrides) {
  const auto scaled = [&] { return gathers_halves(profile, units, p, overrides); };
  if (is_pointwise(p)) return scaled() ? ConvPlan{GatheredPlan{.scaled = true}} : ConvPlan{OneTapPlan{}};
  if (const auto blocks = in_blocks(profile, p, p.pass)) {
    ConvProblem inner = p;
    inner.g = blocks->g;
    inner.channels = blocks->padded;
    return {BlocksRoute{*blocks, std::make_shared<const ConvPlan>(gathered_plan(profile, units, inner, overrides))}};
  }
  const bool as_halves = p.dtype == DType::f32;
  if (const auto plan = halo_plan(profile, as_halves ? units.of_halves : units.of_dtype, p, overrides)) return *plan;
  if (scaled()) return {GatheredPlan{.scaled = true}};
  return {GatheredPlan{products_of_pieces(profile, units.of_dtype, p, overrides)}};
}

std::optional<ConvPlan> grouped_plan(const DeviceProfile& profile, const MatrixUnits& units, const ConvProblem& p) {
  const GroupedConvProblem grouped{.g = p.g,
                                   .pass = p.pass,
                                   .dtype = p.dtype,
                                   .channels_last = p.channels_last,
                                   .images = p.images,
                                   .groups = p.groups,
                                   .channels = p.channels / p.groups,
                                   .out_channels = p.out_channels / p.groups,
                                   .addresses = p.addresses};
  if (p.pass != ConvPass::weight) {
    const auto plan = grouped_conv_plan(profile, grouped);
    return plan ? std::optional(ConvPlan{*plan}) : std::nullopt;
  }
  // Matrix units were faster from groups of 8 channels on, by 4 to 6 times on an H100 (g32 3x3 256 28, channels-last).
  if (dtype_size(p.dtype) == 2 && grouped.channels >= 8 && gathers_serve(profile, units, p)) return std::nullopt;
  const auto plan = grouped_weight_plan(profile, grouped);
  return plan ? std::optional(ConvPlan{*plan}) : std::nullopt;
}

struct TextOf {
  std::string operator()(const GroupedConvPlan& plan) const { return text_of(plan); }
  std::string operator()(const GroupedWeightPlan& plan) const { return text_of(plan); }
  std::string operator()(const OneTapPlan&) const { return "pointwise"; }
  std::string operator()(const BlocksRoute& plan) const { return text_of(plan.blocks) + ": " + text_of(*plan.inner); }
  std::string operator()(const HaloConvPlan& plan) const { return text_of(plan); }
  std::string operator()(const HaloWeightPlan& plan) const { return text_of(plan); }
  std::string operator()(const GatheredPlan& plan) const {
    if (plan.scaled) return "gathered, scaled halves";
    return plan.products == 0 ? "gathered" : "gathered, products of pieces: " + std::to_string(plan.products);
  }
  std::string operator()(const DirectPlan& plan) const { return "direct " + text_of(plan.halves); }
  std::string operator()(const LoopTooLongPlan&) const { return "none: a loop is too long"; }
  std::string operator()(const ColumnsPlan&) const { return "columns"; }
};

}  // namespace

DType multiplied_dtype(const ConvProblem& p, const Overrides& overrides) {
  if (p.only_columns) return DType::f32;
  if (p.dtype != DType::f32 || p.precision == Float32Precision::highest) return p.dtype;
  return piece_dtype(overrides);
}

ConvPlan conv_route(const DeviceProfile& profile, const ConvUnits& units, const ConvProblem& p,
                    const Overrides& overrides) {
  if (p.only_columns) return {ColumnsPlan{}};
  if (!p.is_empty) {
    if (p.groups != 1)
      if (const auto plan = grouped_plan(profile, units.of_dtype, p)) return *plan;
    if (gathers_serve(profile, units.of_dtype, p)) return gathered_plan(profile, units, p, overrides);
  }
  if (p.groups == 1) return {ColumnsPlan{}};
  if (p.is_empty) return {DirectPlan{}};
  const auto halves = direct_plan(profile, {p.g, p.pass, p.summed()});
  return halves ? ConvPlan{DirectPlan{*halves}} : ConvPlan{LoopTooLongPlan{}};
}

std::string text_of(const ConvPlan& plan) { return std::visit(TextOf{}, plan.kernel); }

}  // namespace aule::ops

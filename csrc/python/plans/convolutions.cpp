// Plans of convolutions for devices that are described in numbers, none of which is asked: for tests and for people.
#include <array>
#include <map>
#include <optional>
#include <string>

#include "core/device_profile.h"
#include "ops/conv/route.h"
#include "python/bindings.h"
#include "python/plans/probes.h"

namespace aule::python {
namespace {

// {in, out, kernel, stride, pad, dilation} of depth, height and width.
using Axes = std::array<std::array<int32_t, 6>, 3>;

ops::ConvGeometry geometry_from(const Axes& axes) {
  ops::ConvGeometry g{};
  for (size_t d = 0; d < 3; ++d) {
    g.size[d] = axes[d][0];
    g.out_size[d] = axes[d][1];
    g.kernel[d] = axes[d][2];
    g.stride[d] = axes[d][3];
    g.pad[d] = axes[d][4];
    g.dilation[d] = axes[d][5];
  }
  return g;
}

ops::ConvPass conv_pass(const std::string& name) {
  return name == "input" ? ops::ConvPass::input : name == "weight" ? ops::ConvPass::weight : ops::ConvPass::forward;
}

template <class Plan>
std::string text_or_none(const std::optional<Plan>& plan) {
  return plan ? ops::text_of(*plan) : "none";
}

}  // namespace

void bind_convolutions(py::module_& m) {
  // Numbers: images, channels, out channels, groups. "f64": a dtype that only columns serve.
  m.def("conv_route", [](const DeviceProfile& profile, const Probes& probes, const std::string& pass,
                         const std::string& dtype, bool channels_last, const Axes& axes,
                         const std::array<int64_t, 4>& n, uint64_t addresses, const std::string& precision,
                         const std::map<std::string, std::string>& settings) {
    const DType type = dtype_named(dtype);
    const ops::ConvProblem problem{.g = geometry_from(axes),
                                   .pass = conv_pass(pass),
                                   .dtype = type,
                                   .only_columns = type != DType::f32 && type != DType::f16 && type != DType::bf16,
                                   .is_empty = n[0] == 0,
                                   .channels_last = channels_last,
                                   .images = n[0],
                                   .channels = n[1],
                                   .out_channels = n[2],
                                   .groups = n[3],
                                   .addresses = addresses,
                                   .precision = precision_named(precision)};
    Overrides overrides;
    for (const auto& [name, text] : settings) set_override(overrides, name, text);
    const ops::ConvUnits units{units_of(profile, probes, ops::multiplied_dtype(problem, overrides)),
                               units_of(profile, probes, DType::f16)};
    return ops::text_of(ops::conv_route(profile, units, problem, overrides));
  });
  m.def("direct_plan", [](const DeviceProfile& profile, const std::string& pass, const Axes& axes, int64_t summed) {
    return text_or_none(ops::direct_plan(profile, {geometry_from(axes), conv_pass(pass), summed}));
  });
  // Numbers: images, groups, and channels and out channels of a group.
  m.def("grouped_conv_plan",
        [](const DeviceProfile& profile, const std::string& pass, const std::string& dtype, bool channels_last,
           const Axes& axes, const std::array<int64_t, 4>& n, uint64_t addresses) {
          const ops::GroupedConvProblem problem{.g = geometry_from(axes),
                                                .pass = conv_pass(pass),
                                                .dtype = dtype_named(dtype),
                                                .channels_last = channels_last,
                                                .images = n[0],
                                                .groups = n[1],
                                                .channels = n[2],
                                                .out_channels = n[3],
                                                .addresses = addresses};
          return problem.pass == ops::ConvPass::weight ? text_or_none(ops::grouped_weight_plan(profile, problem))
                                                       : text_or_none(ops::grouped_conv_plan(profile, problem));
        });
  m.def("fold_plan", [](const DeviceProfile& profile, const Axes& axes) {
    return ops::text_of(ops::fold_plan(profile, geometry_from(axes)));
  });
  m.def("blocks_plan", [](const std::string& pass, const std::string& dtype, const Axes& axes,
                          const std::array<int64_t, 2>& images_channels) {
    const auto& [images, channels] = images_channels;
    return text_or_none(ops::blocks_plan(geometry_from(axes), dtype_named(dtype), conv_pass(pass), images, channels));
  });
  // Numbers: images, channels, out channels, groups.
  m.def("implicit_gemm_takes",
        [](const DeviceProfile& profile, const std::string& dtype, const Axes& axes, const std::array<int64_t, 4>& n) {
          return ops::implicit_gemm_takes(profile, {geometry_from(axes), dtype_named(dtype), n[0], n[1], n[2], n[3]});
        });
  m.def("implicit_gemm_plan", [](const DeviceProfile& profile, const Probes& probes, const std::string& dtype,
                                 bool makes_weights, const std::array<uint32_t, 5>& sizes) {
    const DType type = dtype_named(dtype);
    const ops::MatrixUnits units = units_of(profile, probes, type);
    const auto plan = ops::implicit_gemm_plan(profile, units,
                                              {type, makes_weights, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]});
    return plan ? ops::text_of(*plan) : std::string("nothing");
  });
}

}  // namespace aule::python

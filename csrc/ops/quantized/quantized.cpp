#include "ops/quantized/quantized.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels_quantized.gen.h"
#include "ops/decoding/norm_linear.h"
#include "ops/matmul/kernels/coopmat.h"
#include "ops/matmul/matmul.h"
#include "ops/quantized/format.h"
#include "ops/quantized/plan.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr int64_t kChunkBytes = int64_t{64} << 20;  // of decoded weights at a time

bool is_served(at::ScalarType type) { return type == at::kFloat || type == at::kHalf || type == at::kBFloat16; }

// A copy at the start of its own memory: contiguous() would keep a dense tensor at any offset.
at::Tensor moved(const at::Tensor& t) { return at::empty(t.sizes(), t.options()).copy_(t); }

// Rows that a kernel may read: dense, at multiples of 4 bytes.
at::Tensor checked_rows(const char* op, const at::Tensor& weight, const QuantizedFormat& format, int64_t k,
                        int64_t dim) {
  TORCH_CHECK(weight.scalar_type() == at::kByte && weight.dim() == dim, op, ": expected weight to be ", dim,
              "-D of Byte, but got ", weight.dim(), "-D of ", weight.scalar_type());
  TORCH_CHECK(k >= 0 && k % format.values == 0, op, ": expected a multiple of ", format.values, " values in a row of ",
              format.name, ", but got ", k);
  TORCH_CHECK(weight.size(-1) == packed_row_bytes(format, k), op, ": expected packed rows of ",
              packed_row_bytes(format, k), " bytes for ", k, " values of ", format.name, ", but got sizes ",
              weight.sizes());
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  TORCH_CHECK(k <= kMost && weight.size(-2) <= kMost, op, ": expected sizes below 2^31, but got ", weight.sizes());
  if (weight.numel() == 0) return weight;
  bool is_aligned = weight.stride(-1) == 1 && address_of(weight) % 4 == 0;
  for (int64_t d = 0; d + 1 < dim; ++d) is_aligned = is_aligned && weight.stride(d) % 4 == 0;
  is_aligned = is_aligned && weight.stride(-2) >= 0 && weight.stride(-2) <= std::numeric_limits<uint32_t>::max();
  return is_aligned ? weight : moved(weight);
}

void check_dtype(const char* op, const char* what, at::ScalarType dtype) {
  TORCH_CHECK(is_served(dtype), op, ": expected ", what, " to be Float, Half or BFloat16, but got ", dtype);
}

void check_ids(const char* op, const at::Tensor& ids) {
  TORCH_CHECK(ids.scalar_type() == at::kInt || ids.scalar_type() == at::kLong, op,
              ": expected indices of Int or Long, but got ", ids.scalar_type());
}

// Rows of k elements that begin at multiples of 16 bytes.
at::Tensor aligned_rows(const at::Tensor& x, int64_t k) {
  const at::Tensor rows = x.reshape({-1, k});
  const bool is_aligned = rows.numel() > 0 && loads_rows(rows) && rows.stride(0) <= std::numeric_limits<int>::max();
  return is_aligned || rows.numel() == 0 ? rows : moved(rows);
}

// Scales in tensors of their own, checked and contiguous; where they are: decode.glsl.
struct Scales {
  int kind = 0;                     // the kernels' SCALES
  std::vector<at::Tensor> tensors;  // scales, zeros or table, outer scales, offset
  uint32_t row = 0, row_shift = 0, group_shift = 0;

  DType dtype(size_t i) const { return tensors.size() > i ? dtype_of(tensors[i], "scales") : DType::f32; }
};

// `group`: the values that share a scale, counted over all rows, or {rows, columns} of a block that does. All values of
// a row may share one.
void set_group(const char* op, Scales& scales, at::IntArrayRef group, int64_t k) {
  const auto shift = [&](int64_t size) {
    TORCH_CHECK(size >= 1 && size <= int64_t{1} << 30 && (size & (size - 1)) == 0, op,
                ": expected sizes of a group to be powers of two up to 2^30, or a whole row, but got ", group);
    uint32_t s = 0;
    while (int64_t{1} << s < size) ++s;
    return s;
  };
  TORCH_CHECK(group.size() == 1 || group.size() == 2, op, ": expected group to have one number or two, but got ",
              group.size());
  const bool by_blocks = group.size() == 2;
  if (by_blocks) scales.row_shift = shift(group[0]);
  if (group.back() == k) {
    scales.group_shift = 31;
    scales.row = 1u << 31;
    return;
  }
  TORCH_CHECK(group.back() >= 8, op, ": expected at least 8 values in a group, but got ", group);
  scales.group_shift = shift(group.back());
  scales.row = static_cast<uint32_t>(by_blocks ? round_up(k, group.back()) : k);
}

Scales checked_scales(const char* op, const QuantizedFormat& format, at::TensorList given, at::IntArrayRef group,
                      int64_t rows, int64_t k, const at::Tensor& weight) {
  const bool apart = !format.has_scales();
  Scales scales;
  if (!apart) {
    TORCH_CHECK(given.empty(), op, ": expected no scales for ", format.name, ", but got ", given.size());
    return scales;
  }
  TORCH_CHECK(given.size() == 1 || given.size() == 2 || given.size() == 4, op,
              ": expected one tensor of scales, two or four for ", format.name, ", but got ", given.size());
  set_group(op, scales, group, k);
  scales.kind = given.size() == 4 ? 3 : static_cast<int>(given.size());
  const uint64_t row_of_scales = rows == 0 ? 0 : (static_cast<uint64_t>(rows) - 1) >> scales.row_shift;
  const auto count = static_cast<int64_t>(
      rows == 0 || k == 0 ? 0
                          : ((row_of_scales * scales.row + static_cast<uint64_t>(k) - 1) >> scales.group_shift) + 1);
  const auto add = [&](const char* what, size_t i, std::initializer_list<at::ScalarType> types, int64_t least) {
    const at::Tensor& t = given[i];
    TORCH_CHECK(std::find(types.begin(), types.end(), t.scalar_type()) != types.end() && t.numel() >= least, op,
                ": expected ", what, " to be ", least, " numbers of ", *types.begin(),
                types.size() > 1 ? " or a dtype beside it" : "", ", but got ", t.numel(), " of ", t.scalar_type());
    check_same_device(op, {&weight, &t});
    scales.tensors.push_back(t.contiguous());
  };
  if (given.size() == 4) {
    add("codes of scales", 0, {at::kByte}, count);
    add("the table of codes", 1, {at::kFloat}, 256);
    add("scales of codes", 2, {at::kFloat}, (count + 255) / 256);
    add("the number that is added to scales", 3, {at::kFloat}, 1);
  } else {
    add("scales", 0, {at::kFloat, at::kHalf, at::kBFloat16}, count);
    if (given.size() == 2) add("zeros", 1, {at::kFloat, at::kHalf, at::kBFloat16, at::kChar, at::kByte}, count);
  }
  return scales;
}

// Sets the params of kernels that have scales, zeros, outer_scales, code_offset, scale_row and scale_shifts.
template <class Params>
void set_scales(Params& p, const Scales& scales) {
  uint64_t* const addresses[] = {&p.scales, &p.zeros, &p.outer_scales, &p.code_offset};
  for (size_t i = 0; i < scales.tensors.size(); ++i)
    if (scales.tensors[i].numel() > 0) *addresses[i] = address_of(scales.tensors[i]);
  p.scale_row = scales.row;
  p.scale_shifts = scales.row_shift * 32 + scales.group_shift;
}

void read_scales(TensorArgs& args, const Scales& scales) {
  for (const at::Tensor& t : scales.tensors)
    if (t.numel() > 0) args.read(t);
}

// A packed weight of one format, [n, bytes] or [experts, n, bytes].
struct Weight {
  const QuantizedFormat& format;
  at::Tensor packed;
  int64_t k;
  Scales scales;
};

// The kernels' constants for its spans: decode.glsl.
struct Decoding {
  int span, align;
  bool one_scale;
};

Decoding decoding_of(const Weight& weight) {
  const QuantizedFormat& f = weight.format;
  const bool apart = !f.has_scales(), whole = !apart || weight.k / 8 % f.span == 0;
  const uint32_t span = whole ? f.span : 1;
  uint64_t bits = address_of(weight.packed) | (apart ? uint64_t{f.data_bytes} * span : f.data_bytes) | 16;
  for (int64_t d = 0; d + 1 < weight.packed.dim(); ++d) bits |= static_cast<uint64_t>(weight.packed.stride(d));
  const uint64_t values = uint64_t{span} * 8, group = uint64_t{1} << weight.scales.group_shift;
  return {.span = static_cast<int>(span),
          .align = static_cast<int>(bits & (~bits + 1)),
          .one_scale = group % values == 0 && weight.scales.row % values == 0};
}

// Rows lie less than 4 GiB apart: checked_rows copies others.
uint32_t row_bytes_of(const Weight& weight) { return static_cast<uint32_t>(weight.packed.stride(-2)); }

struct Columns {
  int64_t first, count;
};

Weight checked_weight(const char* op, const at::Tensor& weight, std::string_view format_name, int64_t k, int64_t dim,
                      at::TensorList scales, at::IntArrayRef group) {
  const QuantizedFormat& format = quantized_format(op, format_name);
  const at::Tensor packed = checked_rows(op, weight, format, k, dim);
  const int64_t rows = dim == 3 ? packed.size(0) * packed.size(1) : packed.size(0);
  return {format, packed, k, checked_scales(op, format, scales, group, rows, k, weight)};
}

// out [rows, columns], contiguous: decoded rows of weight from `first_row` on, or those that indices name.
void launch_dequantize(const char* op, const Weight& weight, Columns columns, int64_t first_row,
                       const std::optional<at::Tensor>& indices, const at::Tensor& out) {
  TensorArgs args;
  DequantizeParams p{};
  CommandStream& stream = current(out);
  p.weight = args.read(weight.packed);
  p.out_ = args.write(out);
  if (indices) p.indices = args.read(*indices);
  read_scales(args, weight.scales);
  set_scales(p, weight.scales);
  p.error = error_address(stream);
  p.tag = error_tag(op);
  p.row_bytes = row_bytes_of(weight);
  p.rows = weight.packed.size(0);
  p.k = static_cast<uint32_t>(weight.k);
  p.first = static_cast<uint32_t>(columns.first);
  const Decoding decoding = decoding_of(weight);
  p.spans = static_cast<uint32_t>(columns.count / 8 / decoding.span);
  p.first_row = static_cast<uint32_t>(first_row);
  p.out_rows = static_cast<uint32_t>(out.size(0));
  launch(stream, kernel::dequantize(),
         {.format = weight.format.code,
          .out_dtype = dtype_of(out, op),
          .indexed = indices.has_value(),
          .index_dtype = indices ? dtype_of(*indices, op) : DType::i64,
          .scales = weight.scales.kind,
          .scale_dtype = weight.scales.dtype(0),
          .zero_dtype = weight.scales.dtype(1),
          .span = decoding.span,
          .align = decoding.align,
          .one_scale = decoding.one_scale,
          .staged = decoding.span > 2 && !profile_of(out).is_software()},
         p, args, linear_grid((uint64_t{p.out_rows} * p.spans + 63) / 64));
}

struct GemvCall {
  const char* op;
  const Weight& weight;
  const at::Tensor& x;  // aligned_rows
  std::optional<at::Tensor> bias, ids;
  const at::Tensor& out;
  const NormLinearParts* parts = nullptr;  // what follows the product, the bias as above; not with ids
};

void launch_gemv(const GemvCall& call) {
  TensorArgs args;
  GemvQuantizedParams p{};
  CommandStream& stream = current(call.out);
  const DeviceProfile& profile = profile_of(call.out);
  const at::Tensor& packed = call.weight.packed;
  p.x = args.read(call.x);
  p.weight = args.read(packed);
  p.out_ = args.write(call.out);
  if (call.bias) p.bias = args.read(*call.bias);
  if (call.ids) {
    p.ids = args.read(*call.ids);
    p.slots = static_cast<uint32_t>(call.ids->size(-1));
    p.experts = static_cast<uint32_t>(packed.size(0));
    p.expert_bytes_or_residual = packed.stride(0);
  }
  const bool gated = call.parts && call.parts->is_gated(), has_residual = call.parts && call.parts->residual;
  if (has_residual) p.expert_bytes_or_residual = static_cast<int64_t>(args.read(*call.parts->residual));
  read_scales(args, call.weight.scales);
  set_scales(p, call.weight.scales);
  p.error = error_address(stream);
  p.tag = error_tag(call.op);
  p.row_bytes = row_bytes_of(call.weight);
  p.m = static_cast<uint32_t>(call.x.size(0));
  p.n = static_cast<uint32_t>(packed.size(-2) / (gated ? 2 : 1));
  p.k = static_cast<uint32_t>(call.weight.k);
  p.x_row = static_cast<uint32_t>(call.x.stride(0));
  const Decoding decoding = decoding_of(call.weight);
  const uint64_t spans = uint64_t{p.k} / 8 / static_cast<uint64_t>(decoding.span);
  const bool integers =
      overrides().quantized_dot && call.weight.format.has_integers && call.x.scalar_type() != at::kFloat;
  const uint64_t pairs = call.ids ? uint64_t{p.m} * p.slots : 0;
  const QuantizedGemvPlan plan = quantized_gemv_plan(
      profile, {.m = p.m, .n = p.n, .spans = spans, .pairs = pairs, .gated = gated, .integers = integers});
  check_walk(call.op, profile, spans / plan.slice + uint64_t{64});
  launch(stream, kernel::gemv_quantized(plan.dot ? 1 : 0),
         {.format = call.weight.format.code,
          .x_dtype = dtype_of(call.x, call.op),
          .out_dtype = dtype_of(call.out, call.op),
          .rows = plan.rows,
          .columns = plan.columns,
          .slice = plan.slice,
          .has_bias = call.bias.has_value(),
          .by_expert = call.ids.has_value(),
          .index_dtype = call.ids ? dtype_of(*call.ids, call.op) : DType::i64,
          .scales = call.weight.scales.kind,
          .scale_dtype = call.weight.scales.dtype(0),
          .zero_dtype = call.weight.scales.dtype(1),
          .local = plan.local,
          .span = decoding.span,
          .align = decoding.align,
          .one_scale = decoding.one_scale,
          .activation = gated ? gate_code(*call.parts) : AULE_ACT_NONE,
          .residual = has_residual},
         p, args, plan.grid);
}

// The weight as operand b of gemm_quantized.comp.
struct PackedOperand {
  using Params = GemmQuantizedParams;
  using Spec = GemmQuantizedSpec;
  const Weight& weight;  // which the call's args read
  int parts;
  static auto kernel(DType in, const CoopMatPlan& plan) {
    return kernel::gemm_quantized(in, static_cast<int>(plan.fragments));
  }
  void complete(Params& p, Spec& spec) const {
    p.b = address_of(weight.packed);
    p.row_bytes = row_bytes_of(weight);
    set_scales(p, weight.scales);
    const Decoding decoding = decoding_of(weight);
    spec.format = weight.format.code;
    spec.scales = weight.scales.kind;
    spec.scale_dtype = weight.scales.dtype(0);
    spec.zero_dtype = weight.scales.dtype(1);
    spec.span = decoding.span;
    spec.align = decoding.align;
    spec.one_scale = decoding.one_scale;
    spec.parts = parts;
  }
};

// rows [m, k] @ weight.T + bias -> out [m, n] on matrix units, if they multiply such a weight.
bool launch_gemm(const char* op, const Weight& weight, const at::Tensor& rows, const std::optional<at::Tensor>& bias,
                 const at::Tensor& out) {
  GemmProblem g;
  g.in = g.result = dtype_of(rows, op);
  if (g.in != DType::f16 && g.in != DType::bf16) return false;
  g.m = static_cast<uint32_t>(rows.size(0));
  g.n = static_cast<uint32_t>(weight.packed.size(0));
  g.k = static_cast<uint32_t>(weight.k);
  TensorArgs args;
  const auto view = [](const at::Tensor& t, uint64_t address) {
    return MatrixView{.address = address, .row = t.stride(0), .col = t.stride(1)};
  };
  const at::Tensor added = bias ? bias->expand(out.sizes()) : at::Tensor();
  g.a = view(rows, args.read(rows));
  g.b = {.row = 1, .col = weight.k};
  g.out = view(out, args.write(out));
  g.has_c = bias.has_value();
  if (g.has_c) g.c = view(added, args.read(*bias));
  const MatrixUnits units = matrix_units(static_cast<int>(out.get_device()), g.in);
  const auto plan = quantized_gemm_plan(profile_of(out), units, g, weight.format);
  if (!plan) return false;
  args.read(weight.packed);
  read_scales(args, weight.scales);
  const at::Scalar one = 1;
  const GemmEpilogue none;
  launch_product(
      PackedOperand{weight, static_cast<int>(plan->parts)},
      GemmCall{op, profile_of(out), units, g, one, one, rows, weight.packed, added, out, none, with_work_of(g, args)},
      plan->product);
  return true;
}

std::vector<int64_t> with_last(const at::Tensor& x, int64_t size) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = size;
  return sizes;
}

}  // namespace

at::Tensor quantized_dequantize(const at::Tensor& weight, std::string_view format, int64_t k, at::ScalarType dtype,
                                at::TensorList scales, at::IntArrayRef group) {
  constexpr const char* kOp = "quantized_dequantize";
  check_dtype(kOp, "dtype", dtype);
  const Weight w = checked_weight(kOp, weight, format, k, 2, scales, group);
  const at::Tensor out = at::empty({weight.size(0), k}, weight.options().dtype(dtype));
  if (out.numel() > 0) launch_dequantize(kOp, w, {0, k}, 0, {}, out);
  return out;
}

at::Tensor quantized_rows(const at::Tensor& weight, const at::Tensor& indices, std::string_view format, int64_t k,
                          at::ScalarType dtype, at::TensorList scales, at::IntArrayRef group) {
  constexpr const char* kOp = "quantized_rows";
  check_dtype(kOp, "dtype", dtype);
  check_ids(kOp, indices);
  check_same_device(kOp, {&weight, &indices});
  const Weight w = checked_weight(kOp, weight, format, k, 2, scales, group);
  const at::Tensor line = indices.reshape({-1}).contiguous();
  TORCH_CHECK_INDEX(line.numel() == 0 || weight.size(0) > 0, kOp, ": indices into a weight without rows");
  TORCH_CHECK(line.numel() <= std::numeric_limits<int>::max(), kOp, ": expected fewer than 2^31 indices");
  const at::Tensor out = at::empty({line.numel(), k}, weight.options().dtype(dtype));
  if (out.numel() > 0) launch_dequantize(kOp, w, {0, k}, 0, line, out);
  std::vector<int64_t> sizes = indices.sizes().vec();
  sizes.push_back(k);
  return out.view(sizes);
}

at::Tensor quantized_linear(const at::Tensor& x, const at::Tensor& weight, std::string_view format,
                            const std::optional<at::Tensor>& given_bias, at::TensorList scales, at::IntArrayRef group) {
  constexpr const char* kOp = "quantized_linear";
  check_dtype(kOp, "x", x.scalar_type());
  TORCH_CHECK(x.dim() >= 1, kOp, ": expected x to have at least one dimension, but it has none");
  check_same_device(kOp, {&x, &weight});
  const int64_t k = x.size(-1);
  const Weight w = checked_weight(kOp, weight, format, k, 2, scales, group);
  const int64_t n = weight.size(0);
  std::optional<at::Tensor> bias;
  if (given_bias && given_bias->defined()) {
    TORCH_CHECK(given_bias->dim() == 1 && given_bias->size(0) == n && given_bias->scalar_type() == x.scalar_type(), kOp,
                ": expected bias to have sizes [", n, "] and x's dtype, but got ", given_bias->sizes(), " of ",
                given_bias->scalar_type());
    bias = given_bias->contiguous();
    check_same_device(kOp, {&x, &*bias});
  }
  const std::vector<int64_t> sizes = with_last(x, n);
  const at::Tensor out = at::empty(sizes, x.options());
  if (out.numel() == 0) return out;
  const int64_t m = out.numel() / n;
  const at::Tensor rows = k > 0 ? aligned_rows(x, k) : x, flat = out.view({m, n});
  if (k == 0) {
    if (bias) return flat.copy_(bias->expand({m, n})).view(sizes);
    return out.zero_();
  }
  if (m <= kMostFewRows) {
    launch_gemv({kOp, w, rows, bias, {}, flat});
    return out;
  }
  if (launch_gemm(kOp, w, rows, bias, flat)) return out;
  const int64_t step = std::max<int64_t>(1, kChunkBytes / (k * x.element_size()));
  for (int64_t first = 0; first < n; first += step) {
    const int64_t count = std::min(step, n - first);
    const at::Tensor part = at::empty({count, k}, x.options());
    launch_dequantize(kOp, w, {0, k}, first, {}, part);
    gemm(kOp, rows.unsqueeze(0), part.t().unsqueeze(0),
         bias ? bias->narrow(0, first, count).expand({1, m, count}) : at::Tensor(), 1, 1,
         flat.narrow(1, first, count).unsqueeze(0));
  }
  return out;
}

at::Tensor quantized_norm_linear_act(const at::Tensor& x, const at::Tensor& weight, std::string_view format,
                                     const std::optional<at::Tensor>& bias, at::TensorList scales,
                                     at::IntArrayRef group, const std::optional<at::Tensor>& norm, double eps,
                                     std::string_view activation, const std::optional<at::Tensor>& residual) {
  constexpr const char* kOp = "quantized_norm_linear_act";
  const NormLinearParts parts = norm_linear_parts(bias, norm, eps, activation, residual);
  check_dtype(kOp, "x", x.scalar_type());
  TORCH_CHECK(x.dim() >= 1, kOp, ": expected x to have at least one dimension, but it has none");
  TORCH_CHECK(weight.dim() == 2, kOp, ": expected weight to be 2-D of Byte, but got ", weight.dim(), "-D of ",
              weight.scalar_type());
  check_same_device(kOp, {&x, &weight});
  const int64_t k = x.size(-1);
  const std::vector<int64_t> sizes = checked_parts(kOp, x, weight.size(0), k, parts);
  const int64_t n = sizes.back(), m = c10::multiply_integers(sizes.begin(), sizes.end() - 1);
  const at::Tensor rows = normed(x, parts);  // each octet is decoded for few columns: too few to norm it there
  if (m == 0 || n == 0 || k == 0 || m > kMostFewRows)
    return gated_and_added(quantized_linear(rows, weight, format, bias, scales, group), parts);
  const Weight w = checked_weight(kOp, weight, format, k, 2, scales, group);
  const at::Tensor out = at::empty(sizes, x.options());
  launch_gemv({kOp, w, aligned_rows(rows, k), parts.bias, {}, out.view({m, n}), &parts});
  return out;
}

at::Tensor quantized_matmul(const at::Tensor& x, const at::Tensor& weight, std::string_view format, int64_t k,
                            at::TensorList scales, at::IntArrayRef group) {
  constexpr const char* kOp = "quantized_matmul";
  check_dtype(kOp, "x", x.scalar_type());
  check_same_device(kOp, {&x, &weight});
  const Weight w = checked_weight(kOp, weight, format, k, 2, scales, group);
  TORCH_CHECK(x.dim() >= 1 && x.size(-1) == weight.size(0), kOp, ": expected x to have ", weight.size(0),
              " columns, but got sizes ", x.sizes());
  const int64_t n = weight.size(0);
  const at::Tensor out = at::empty(with_last(x, k), x.options());
  if (out.numel() == 0) return out;
  if (n == 0) return out.zero_();
  const int64_t m = out.numel() / k, step = std::max<int64_t>(1, kChunkBytes / (n * x.element_size()) / 256) * 256;
  const at::Tensor rows = x.reshape({1, m, n}), flat = out.view({1, m, k});
  for (int64_t first = 0; first < k; first += step) {
    const Columns columns{first, std::min(step, k - first)};
    const at::Tensor part = at::empty({n, columns.count}, x.options());
    launch_dequantize(kOp, w, columns, 0, {}, part);
    gemm(kOp, rows, part.unsqueeze(0), {}, 0, 1, flat.narrow(2, first, columns.count));
  }
  return out;
}

at::Tensor quantized_linear_by_expert(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ids,
                                      std::string_view format, at::TensorList scales, at::IntArrayRef group) {
  constexpr const char* kOp = "quantized_linear_by_expert";
  check_dtype(kOp, "x", x.scalar_type());
  check_ids(kOp, ids);
  check_same_device(kOp, {&x, &weight, &ids});
  TORCH_CHECK(x.dim() == 2 && ids.dim() == 2 && ids.size(0) == x.size(0), kOp,
              ": expected x [m, k] and ids [m, slots], but got sizes ", x.sizes(), " and ", ids.sizes());
  const int64_t k = x.size(1);
  const Weight w = checked_weight(kOp, weight, format, k, 3, scales, group);
  const at::Tensor out = at::empty({ids.size(0), ids.size(1), weight.size(1)}, x.options());
  if (out.numel() == 0) return out;
  TORCH_CHECK_INDEX(weight.size(0) > 0, kOp, ": ids of no experts");
  if (k == 0) return out.zero_();
  TORCH_CHECK(ids.numel() <= std::numeric_limits<int>::max(), kOp, ": expected fewer than 2^31 ids");
  launch_gemv({kOp, w, aligned_rows(x, k), {}, ids.contiguous(), out});
  return out;
}

}  // namespace aule::ops

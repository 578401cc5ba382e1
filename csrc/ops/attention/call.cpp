#include "ops/attention/call.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>

namespace aule::ops {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 28;  // sums of two lengths and a window stay in 32 bits

}  // namespace

void check_heads(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool int8) {
  const std::array<std::pair<const char*, const at::Tensor*>, 3> operands{
      {{"query", &query}, {"key", &key}, {"value", &value}}};
  for (const auto& [name, t] : operands) {
    TORCH_CHECK(t->device().type() == c10::DeviceType::PrivateUse1, op, ": expected ", name,
                " on device aule, but it is on ", t->device());
    TORCH_CHECK(t->device() == query.device(), op, ": expected ", name, " on ", query.device(),
                " like query, but it is on ", t->device());
    const auto dtype = t->scalar_type();
    const bool elsewhere = int8 && t != &query;
    TORCH_CHECK(elsewhere || dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, op, ": expected ",
                name, " of dtype float32, float16 or bfloat16, but got ", dtype);
    TORCH_CHECK(elsewhere || dtype == query.scalar_type(), op, ": expected ", name, " of dtype ", query.scalar_type(),
                " like query, but got ", dtype);
    TORCH_CHECK(t->size(-1) >= 1 && t->size(-1) <= kMaxHeadDim, op, ": expected a head size of ", name, " from 1 to ",
                kMaxHeadDim, ", but got ", t->size(-1));
    TORCH_CHECK(t->size(-2) <= kMaxLength, op, ": ", name, " is too long: ", t->size(-2), " rows");
  }
  TORCH_CHECK(key.size(-1) == query.size(-1), op, ": expected key of head size ", query.size(-1),
              " like query, but got ", key.size(-1));
  TORCH_CHECK(value.size(-2) == key.size(-2), op, ": expected value of length ", key.size(-2), " like key, but got ",
              value.size(-2));
  TORCH_CHECK(value.size(-3) == key.size(-3), op, ": expected value of ", key.size(-3), " heads like key, but got ",
              value.size(-3));
  TORCH_CHECK(key.size(-3) == query.size(-3) || (key.size(-3) > 0 && query.size(-3) % key.size(-3) == 0), op,
              ": expected a number of key heads that divides the ", query.size(-3), " query heads, but got ",
              key.size(-3));
}

namespace {

void check_operands(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const std::array<std::pair<const char*, const at::Tensor*>, 3> operands{
      {{"query", &query}, {"key", &key}, {"value", &value}}};
  for (const auto& [name, t] : operands) {
    TORCH_CHECK(t->dim() == 3 || t->dim() == 4, op, ": expected ", name,
                " of 4 dimensions (batch, heads, length, head size), or 3 without batch, but got ", t->sizes());
    TORCH_CHECK(t->dim() == query.dim(), op, ": expected ", name, " of ", query.dim(),
                " dimensions like query, but got ", t->sizes());
    TORCH_CHECK(t->dim() == 3 || t->size(0) == query.size(0), op, ": expected ", name, " of batch size ", query.size(0),
                " like query, but got ", t->sizes());
  }
  check_heads(op, query, key, value);
}

at::Tensor expanded_bias(const char* op, const at::Tensor& bias, const at::Tensor& query,
                         const AttentionProblem& problem) {
  TORCH_CHECK(bias.device() == query.device(), op, ": expected attn_bias on ", query.device(),
              " like query, but it is on ", bias.device());
  const auto dtype = bias.scalar_type();
  TORCH_CHECK(dtype == at::kBool || dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, op,
              ": expected attn_bias of dtype bool, float32, float16 or bfloat16, but got ", dtype);
  const std::array<int64_t, 4> full{problem.batch, problem.heads, problem.q_len, problem.k_len};
  const at::IntArrayRef target(full.data() + (4 - query.dim()), query.dim());
  bool fits = bias.dim() <= query.dim();
  for (int64_t i = 1; fits && i <= bias.dim(); ++i) fits = bias.size(-i) == 1 || bias.size(-i) == full[4 - i];
  TORCH_CHECK(fits, op, ": expected attn_bias of a shape that broadcasts to ", target, ", but got ", bias.sizes());
  return bias.expand(full);
}

// The slopes as a bias that every query and key of a head shares; the kernels multiply it by the distance.
at::Tensor slopes_as_bias(const char* op, const at::Tensor& slopes, const at::Tensor& query,
                          const AttentionProblem& problem) {
  TORCH_CHECK(slopes.device() == query.device(), op, ": expected alibi_slopes on ", query.device(),
              " like query, but it is on ", slopes.device());
  TORCH_CHECK(slopes.scalar_type() == at::kFloat, op, ": expected alibi_slopes of dtype float32, but got ",
              slopes.scalar_type());
  const bool each = slopes.dim() == 2 && slopes.size(0) == problem.batch;
  TORCH_CHECK((slopes.dim() == 1 || each) && slopes.size(-1) == problem.heads, op, ": expected alibi_slopes of shape [",
              problem.heads, "] or [", problem.batch, ", ", problem.heads,
              "], a slope for each head of query, but got ", slopes.sizes());
  return slopes.unsqueeze(-1).unsqueeze(-1).expand({problem.batch, problem.heads, problem.q_len, problem.k_len});
}

at::Tensor expanded_blocks(const char* op, const AttentionFlags& flags, const at::Tensor& query,
                           const AttentionProblem& problem) {
  const at::Tensor& mask = flags.block_mask;
  TORCH_CHECK(mask.device() == query.device(), op, ": expected block_mask on ", query.device(),
              " like query, but it is on ", mask.device());
  TORCH_CHECK(mask.scalar_type() == at::kBool, op, ": expected block_mask of dtype bool, but got ", mask.scalar_type());
  TORCH_CHECK(flags.block_q >= 1 && flags.block_k >= 1 && flags.block_q <= kMaxLength && flags.block_k <= kMaxLength,
              op, ": expected block_q and block_k of at least 1, but got ", flags.block_q, " and ", flags.block_k);
  const std::array<int64_t, 4> full{problem.batch, problem.heads, ceil_div(problem.q_len, flags.block_q),
                                    ceil_div(problem.k_len, flags.block_k)};
  bool fits = mask.dim() >= 2 && mask.dim() <= 4 && mask.size(-2) == full[2] && mask.size(-1) == full[3];
  for (int64_t i = 3; fits && i <= mask.dim(); ++i) fits = mask.size(-i) == 1 || mask.size(-i) == full[4 - i];
  TORCH_CHECK(fits, op, ": expected block_mask of shape [.., ", full[2], ", ", full[3], "], a value for each ",
              flags.block_q, " queries and ", flags.block_k, " keys, that broadcasts to ", at::IntArrayRef(full),
              ", but got ", mask.sizes());
  return mask.expand(full);
}

}  // namespace

bool dense_rows(const at::Tensor& t) { return t.stride(-1) == 1 || t.size(-1) == 1; }

at::Tensor attention_operand(const at::Tensor& t) {
  const at::Tensor full = t.dim() == 3 ? t.unsqueeze(0) : t;
  return dense_rows(full) ? full : full.contiguous();
}

AttentionCall attention_call(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const OptionalTensor& attn_bias, const AttentionFlags& flags) {
  check_operands(op, query, key, value);
  AttentionCall call;
  call.op = op;
  call.query = attention_operand(query);
  call.key = attention_operand(key);
  call.value = attention_operand(value);
  AttentionProblem& problem = call.problem;
  problem.batch = call.query.size(0);
  problem.heads = call.query.size(1);
  problem.kv_heads = call.key.size(1);
  problem.q_len = call.query.size(2);
  problem.k_len = call.key.size(2);
  problem.head_dim = call.query.size(3);
  problem.v_dim = call.value.size(3);
  problem.dtype = dtype_of(query, op);
  if (attn_bias.has_value() && attn_bias->defined()) {
    call.mask = expanded_bias(op, *attn_bias, query, problem);
    const bool boolean = attn_bias->scalar_type() == at::kBool;
    problem.mask.kind = boolean ? AttentionMask::Kind::boolean : AttentionMask::Kind::bias;
  }
  set_flags(call, flags);
  describe_operands(call);
  return call;
}

void set_flags(AttentionCall& call, const AttentionFlags& flags) {
  const char* op = call.op;
  AttentionProblem& problem = call.problem;
  TORCH_CHECK(flags.dropout_p >= 0 && flags.dropout_p <= 1, op, ": expected dropout_p between 0 and 1, but got ",
              flags.dropout_p);
  TORCH_CHECK(flags.softcap >= 0 && std::isfinite(flags.softcap), op, ": expected softcap of at least 0, but got ",
              flags.softcap);
  TORCH_CHECK(problem.batch * problem.heads <= kMaxLength, op, ": too many heads in the batch: query is ",
              call.query.sizes());
  call.scale = static_cast<float>(flags.scale.value_or(1.0 / std::sqrt(static_cast<double>(problem.head_dim))));
  call.softcap = static_cast<float>(flags.softcap);
  call.dropout_steps = static_cast<uint64_t>(std::round(std::ldexp(flags.dropout_p, 40)));
  call.dropout_scale = flags.dropout_p < 1 ? static_cast<float>(1 / (1 - flags.dropout_p)) : 1;  // at 1 all is dropped
  call.diagonal = flags.causal_bottom_right ? static_cast<int>(problem.k_len - problem.q_len) : 0;
  const auto bound = [](int64_t window) { return window < 0 ? kUnbounded : std::min(window, kUnbounded); };
  call.left = static_cast<int>(bound(flags.window_left));
  call.right = flags.is_causal ? 0 : static_cast<int>(bound(flags.window_right));
  problem.masked = call.right < kUnbounded || call.left < kUnbounded;
  if (flags.block_mask.defined()) {
    call.mask = expanded_blocks(op, flags, call.query, problem);
    problem.mask = {AttentionMask::Kind::blocks, static_cast<int>(flags.block_q), static_cast<int>(flags.block_k)};
  }
  if (!flags.alibi_slopes.defined()) return;
  TORCH_CHECK(!call.mask.defined(), op, ": expected attn_bias to be None beside alibi_slopes");
  call.mask = slopes_as_bias(op, flags.alibi_slopes, call.query, problem);
  problem.mask = {AttentionMask::Kind::alibi};
}

std::tuple<at::Tensor, at::Tensor> philox_tensors(const runtime::PhiloxState& state) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(at::kCPU);
  const bool captured = state.state_address != 0;
  const auto word = [&](uint64_t bits) { return at::scalar_tensor(static_cast<int64_t>(bits), options); };
  return {word(captured ? state.state_address : state.seed), word(captured ? state.offset | 1 : state.offset)};
}

runtime::PhiloxState philox_state(const at::Tensor& seed, const at::Tensor& offset) {
  // On the host, as the forward returns them; or where torch 2.11's shape inference takes them to be, on the device.
  const auto word = [](const at::Tensor& t) {
    return static_cast<uint64_t>(t.is_cpu() ? *t.const_data_ptr<int64_t>() : t.item<int64_t>());
  };
  const uint64_t first = word(seed), second = word(offset);
  runtime::PhiloxState state;
  state.offset = second & ~uint64_t{1};
  if ((second & 1) != 0)
    state.state_address = first;
  else
    state.seed = first;
  return state;
}

void describe_operands(AttentionCall& call) {
  AttentionProblem& problem = call.problem;
  const bool halves = problem.dtype == DType::f16 || problem.dtype == DType::bf16;
  bool fits_i32 = true, matrices = halves;  // strides in elements, and the bytes of one head, have 32 bits
  for (const at::Tensor* t : {&call.query, &call.key, &call.value, &call.mask}) {
    if (!t->defined()) continue;
    for (const int64_t stride : t->strides()) fits_i32 = fits_i32 && stride < (int64_t{1} << 31);
    const int64_t most = t == &call.query ? problem.q_len : problem.k_len;  // rows of one sequence
    const int64_t rows = call.ragged.given ? std::min(t->size(2), most) : t->size(2);
    matrices = matrices && rows * t->stride(2) < (int64_t{1} << 30);
  }
  using Kind = AttentionMask::Kind;
  const Kind mask = problem.mask.kind;
  // Units of ALiBi's bias beside scores that are not scaled yet are finite.
  const bool positive = call.scale > (mask == Kind::alibi ? 1e-20F : 0.0F);
  problem.unmodified_scores = mask != Kind::bias && mask != Kind::boolean && call.softcap == 0 && positive;
  problem.fits_i32 = fits_i32;
  problem.vec16b = halves && multiples_of(8, {&call.query, &call.key, &call.value});
  problem.layout = matrices && fits_i32 ? matrix_layout(call.query.device().index(), problem.dtype) : MatrixLayout{};
  call.plans = {};
}

const AttentionPlan& plan_of(const AttentionCall& call, AttentionPass pass) {
  auto& plan = call.plans[static_cast<size_t>(pass)];
  if (!plan) plan = plan_attention(profile_of(call.query), call.problem, pass, overrides());
  TORCH_CHECK_NOT_IMPLEMENTED(plan.has_value(), call.op, ": this device has no kernel for query ", call.query.sizes(),
                              ", value ", call.value.sizes(), " of dtype ", call.query.scalar_type());
  return *plan;
}

bool multiples_of(int64_t elems, c10::ArrayRef<const at::Tensor*> operands) {
  for (const at::Tensor* t : operands) {
    bool fits = address_of(*t) % static_cast<uint64_t>(elems * t->element_size()) == 0 && t->size(-1) % elems == 0;
    for (int i = 0; i < 3; ++i) fits = fits && (t->size(i) == 1 || t->stride(i) % elems == 0);
    if (!fits) return false;
  }
  return true;
}

double seen_pairs(const AttentionCall& call) {
  const AttentionProblem& problem = call.problem;
  if (call.ragged.given) return 0;
  const auto q = static_cast<double>(problem.q_len), k = static_cast<double>(problem.k_len);
  // Keys before `offset` from the diagonal, of all rows: the sum of clamp(row + offset, 0, k).
  const auto keys_before = [&](double offset) {
    const double first = std::clamp(-offset, 0.0, q), last = std::clamp(k - offset, first, q);  // rows in between
    return (last - first) * (first + last - 1 + 2 * offset) / 2 + (q - last) * k;
  };
  const double diagonal = call.diagonal;
  const double seen = keys_before(diagonal + call.right + 1) - keys_before(diagonal - call.left);
  return seen * static_cast<double>(problem.batch) * static_cast<double>(problem.heads);
}

Work attention_work(const AttentionCall& call, int of_head_dim, int of_v_dim) {
  const AttentionProblem& problem = call.problem;
  const auto width = static_cast<double>(of_head_dim * problem.head_dim + of_v_dim * problem.v_dim);
  return {2 * seen_pairs(call) * width, problem.dtype};
}

}  // namespace aule::ops

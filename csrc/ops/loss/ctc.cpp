// The checks and their texts are PyTorch's.
#include "ops/loss/ctc.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/TensorUtils.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels_loss.gen.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kOp = "ctc_loss";
constexpr uint64_t kStatesLocal = 64;

struct Sequences {
  at::Tensor log_probs, targets, lengths;  // contiguous; lengths and the targets' offsets, [3, batch]
  int64_t steps, batch, classes, states, longest, blank;

  template <class Params>
  void fill(Params& p, TensorArgs& args) const {
    p.log_probs = args.read(log_probs);
    p.targets = args.read(targets);
    p.lengths = args.read(lengths);
    p.batch = static_cast<uint32_t>(batch);
    p.steps = static_cast<uint32_t>(steps);
    p.states = static_cast<uint32_t>(states);
    p.classes = static_cast<uint32_t>(classes);
    p.blank = static_cast<uint32_t>(blank);
  }
  DType arithmetic() const { return compute_type(dtype_of(log_probs, kOp)); }
  // Iterations of float64's logarithm (common/float_bits.glsl).
  uint64_t log_loop() const { return arithmetic() == DType::f64 ? 10 : 0; }
  DType target_dtype() const { return dtype_of(targets, kOp); }
};

Sequences sequences_of(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                       at::IntArrayRef target_lengths, int64_t blank) {
  const at::ScalarType type = log_probs.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kDouble, "\"ctc_loss\" not implemented for '", type,
                              "'");
  const at::CheckedFrom from = "ctc_loss_allocate_outputs";
  const at::TensorArg probs_arg{log_probs, "log_probs", 1}, targets_arg{targets, "targets", 2};
  TORCH_CHECK(targets.scalar_type() == at::kLong || targets.scalar_type() == at::kInt,
              "expected scalar type Int or Long but found ", targets.scalar_type());
  at::checkDim(from, probs_arg, 3);
  at::checkDimRange(from, targets_arg, 1, 3);
  check_same_device(kOp, {&log_probs, &targets});
  const int64_t steps = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
  TORCH_CHECK(blank >= 0 && blank < classes, "blank must be in label range");
  TORCH_CHECK(static_cast<int64_t>(input_lengths.size()) == batch, "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == batch, "target_lengths must be of size batch_size");
  const bool joined = targets.dim() == 1;
  std::vector<int64_t> lengths;
  lengths.insert(lengths.end(), input_lengths.begin(), input_lengths.end());
  lengths.insert(lengths.end(), target_lengths.begin(), target_lengths.end());
  int64_t longest = 0, place = 0;
  for (int64_t n = 0; n < batch; ++n) {
    const int64_t labels = target_lengths[static_cast<size_t>(n)], frames = input_lengths[static_cast<size_t>(n)];
    TORCH_CHECK(labels >= 0, "Expected target_lengths to have value at least ", 0, ", but got value ", labels,
                " (while checking arguments for ", from, ")");
    TORCH_CHECK(frames >= 0, "Expected input_lengths to have value at least ", 0, ", but got value ", frames,
                " (while checking arguments for ", from, ")");
    TORCH_CHECK(frames <= steps, "Expected input_lengths to have value at most ", steps, ", but got value ", frames,
                " (while checking arguments for ", from, ")");
    lengths.push_back(place);
    place += joined ? labels : targets.size(1);
    longest = std::max(longest, labels);
  }
  if (joined) {
    at::checkSize(from, targets_arg, 0, place);
  } else {
    at::checkSize(from, targets_arg, 0, batch);
    TORCH_CHECK(targets.size(1) >= longest, "Expected tensor to have size at least ", longest,
                " at dimension 1, but got size ", targets.size(1), " (while checking arguments for ", from, ")");
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 4;
  TORCH_CHECK_NOT_IMPLEMENTED(steps < kMost && batch < kMost && classes < kMost && longest < kMost, kOp,
                              ": more than 2^29 steps, sequences, classes or labels");
  const auto device_lengths = at::empty({3, batch}, targets.options().dtype(at::kLong));
  if (batch > 0)
    upload_bytes(current(log_probs), address_of(device_lengths), lengths.data(), lengths.size() * sizeof(int64_t));
  const Sequences s{log_probs.contiguous(),
                    targets.contiguous(),
                    device_lengths,
                    steps,
                    batch,
                    classes,
                    2 * longest + 1,
                    longest,
                    blank};
  TORCH_CHECK_NOT_IMPLEMENTED(supports(log_probs.device().index(), kernel::ctc_states(s.arithmetic()).id), kOp,
                              ": this device has no float64 arithmetic");
  return s;
}

// log alpha, or log beta.
at::Tensor states_of(const Sequences& s, bool backward) {
  at::Tensor table =
      at::full({s.batch, s.steps, s.states}, -std::numeric_limits<double>::infinity(), s.log_probs.options());
  if (table.numel() == 0) return table;
  const DeviceProfile& profile = profile_of(s.log_probs);
  constexpr int64_t kSharedStates = 1024;  // two rows of float64: 16 KiB
  constexpr uint32_t kSharedLocal = 256;
  const bool shared =
      !profile.is_software() && s.states <= kSharedStates && profile.max_workgroup_invocations >= kSharedLocal;
  const uint64_t per_step = 1 + ceil_div(static_cast<uint64_t>(s.states), kSharedLocal) * (1 + 2 * s.log_loop());
  const uint64_t count = shared ? std::max<uint64_t>(1, longest_walk(profile) / per_step - 1) : 1;
  CommandStream& stream = current(s.log_probs);
  for (uint64_t first = 0; first < static_cast<uint64_t>(s.steps); first += count) {
    TensorArgs args;
    CtcStatesParams p{};
    s.fill(p, args);
    p.table = args.read_write(table);
    p.error = error_address(stream);
    p.tag = error_tag(kOp);
    p.first = static_cast<uint32_t>(first);
    p.last = static_cast<uint32_t>(first + std::min(count, static_cast<uint64_t>(s.steps) - first));
    launch(stream, kernel::ctc_states(s.arithmetic()),
           {.target_dtype = s.target_dtype(),
            .backward = backward,
            .shared = shared,
            .local = static_cast<int>(shared ? kSharedLocal : kStatesLocal),
            .row = shared ? static_cast<int>(std::bit_ceil(static_cast<uint64_t>(s.states))) : 1},
           p, args,
           linear_grid(shared ? static_cast<uint64_t>(s.batch)
                              : ceil_div(static_cast<uint64_t>(s.batch * s.states), kStatesLocal)));
    if (count > static_cast<uint64_t>(s.steps)) break;
  }
  return table;
}

enum class Part { loss, fill, labels };
struct CtcTensors {
  at::Tensor alpha, beta, loss, grad, grad_input;
  bool zero_infinity = false;
};
void run_part(const Sequences& s, Part part, const CtcTensors& g) {
  const bool loss = part == Part::loss;
  TensorArgs args;
  CtcGradientParams p{};
  s.fill(p, args);
  p.alpha = args.read(g.alpha);
  p.loss = loss ? args.write(g.loss) : args.read(g.loss);
  if (!loss) {
    p.beta = args.read(g.beta);
    p.grad = args.read(g.grad);
    p.grad_stride = g.grad.dim() == 0 ? 0 : static_cast<uint32_t>(g.grad.stride(0));
    p.grad_input = args.read_write(g.grad_input);
  }
  const int64_t places = s.steps * s.batch;
  p.n = static_cast<uint64_t>(loss ? s.batch : part == Part::fill ? places * s.classes : places * (s.longest + 1));
  launch(current(s.log_probs), kernel::ctc_gradient(s.arithmetic()),
         {.target_dtype = s.target_dtype(), .loss = loss, .fill = part == Part::fill, .zero_infinity = g.zero_infinity},
         p, args, linear_grid(ceil_div(p.n, CtcGradientParams::kLocal)));
}

std::vector<int64_t> on_host(const at::Tensor& lengths) {
  const at::Tensor host = lengths.to(at::kCPU, at::kLong).contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                                            at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                                            int64_t blank, bool) {
  const Sequences s = sequences_of(log_probs, targets, input_lengths, target_lengths, blank);
  const CtcTensors g{states_of(s, false), {}, at::empty({s.batch}, log_probs.options()), {}, {}};
  if (s.batch > 0) run_part(s, Part::loss, g);
  return {g.loss, g.alpha};
}

at::Tensor ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                             at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                             const at::Tensor& neg_log_likelihood, const at::Tensor& log_alpha, int64_t blank,
                             bool zero_infinity) {
  const Sequences s = sequences_of(log_probs, targets, input_lengths, target_lengths, blank);
  TORCH_CHECK(log_alpha.sizes() == at::IntArrayRef({s.batch, s.steps, s.states}) && grad.numel() == s.batch, kOp,
              "_backward: expected the forward's log_alpha, got shape ", log_alpha.sizes());
  const at::Tensor grad_input = at::empty(log_probs.sizes(), log_probs.options());
  if (grad_input.numel() == 0) return grad_input;
  check_walk(kOp, caps_of(log_probs), static_cast<uint64_t>(3 * s.longest + 1) * (1 + s.log_loop()));
  const CtcTensors g{log_alpha.contiguous(), states_of(s, true), neg_log_likelihood.contiguous(), grad, grad_input,
                     zero_infinity};
  run_part(s, Part::fill, g);
  run_part(s, Part::labels, g);
  return grad_input;
}

std::tuple<at::Tensor, at::Tensor> ctc_loss_tensor(const at::Tensor& log_probs, const at::Tensor& targets,
                                                   const at::Tensor& input_lengths, const at::Tensor& target_lengths,
                                                   int64_t blank, bool zero_infinity) {
  return ctc_loss(log_probs, targets, on_host(input_lengths), on_host(target_lengths), blank, zero_infinity);
}

at::Tensor ctc_loss_backward_tensor(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                                    const at::Tensor& input_lengths, const at::Tensor& target_lengths,
                                    const at::Tensor& neg_log_likelihood, const at::Tensor& log_alpha, int64_t blank,
                                    bool zero_infinity) {
  return ctc_loss_backward(grad, log_probs, targets, on_host(input_lengths), on_host(target_lengths),
                           neg_log_likelihood, log_alpha, blank, zero_infinity);
}

}  // namespace aule::ops

// Forward of few queries over many keys: flash_decode over splits of the keys, then flash_decode_combine.
#include <ATen/ops/empty.h>

#include "kernels_attention.gen.h"
#include "ops/attention_problem.h"

namespace aule::ops {

void launch_decode(const AttentionCall& call, const AttentionPlan& plan, const at::Tensor& out,
                   const at::Tensor& logsumexp) {
  const auto& problem = call.problem;
  const int64_t parts = problem.batch * problem.kv_heads * plan.splits,
                rows = problem.heads / problem.kv_heads * problem.q_len;
  const auto float_options = call.query.options().dtype(at::kFloat);
  const int64_t pitch = (problem.v_dim + 7) / 8 * 8;
  const at::Tensor partial = at::empty({parts, rows, pitch}, float_options),
                   stats = at::empty({parts, rows, 2}, float_options);
  auto& stream = current(call.query);
  const auto eights = [](int64_t columns) { return static_cast<int>((columns + 7) / 8); };
  {
    TensorArgs args;
    auto p = attention_params<FlashDecodeParams>(call, args, static_cast<uint32_t>(parts));
    p.partial = args.write(partial);
    p.stats = args.write(stats);
    p.splits = plan.splits;
    const Spec spec{problem.dtype,
                    bias_code(call),
                    attention_mode(call),
                    call.softcap > 0,
                    plan.local,
                    plan.rows,
                    eights(problem.head_dim),
                    eights(problem.v_dim),
                    multiples_of(8, {&call.query, &call.key, &call.value})};
    launch(stream, kernel::flash_decode(), spec, p, args, linear_grid(static_cast<uint64_t>(parts)));
  }
  TensorArgs args;
  const auto groups = static_cast<uint64_t>(problem.batch * problem.heads * problem.q_len);
  FlashDecodeCombineParams p{};
  p.partial = args.read(partial);
  p.stats = args.read(stats);
  p.out_ = args.write(out);
  p.logsumexp = args.write(logsumexp);
  set_strides(p.out_stride, out);
  p.groups = static_cast<uint32_t>(groups);
  p.heads = static_cast<int>(problem.heads);
  p.kv_heads = static_cast<int>(problem.kv_heads);
  p.q_len = static_cast<int>(problem.q_len);
  p.v_dim = static_cast<int>(problem.v_dim);
  p.splits = plan.splits;
  set_sequences(p, call.ragged, args);
  const int local = caps_of(call.query).kind == Caps::Kind::cpu ? 64 : 256;
  int lanes = 1;  // for a row in pieces of four columns
  while (lanes * 4 < pitch) lanes *= 2;
  const Spec spec{problem.dtype, -1, attention_mode(call), false, local, lanes, static_cast<int>(pitch)};
  launch(stream, kernel::flash_decode_combine(), spec, p, args, linear_grid(groups));
}

}  // namespace aule::ops

// nn.RNN, nn.GRU and nn.LSTM: layer by layer with a gradient of our own (ops/rnn/layer.h). Calls that it does not serve
// are made of cells, as PyTorch makes them.
#include <ATen/autocast_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "aten/plain.h"
#include "aten/register.h"
#include "ops/rnn/layer.h"

namespace aule::aten {
namespace {

using ops::Cell;
using ops::RecurrentLayer;
using ops::RecurrentWeights;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;

// In the order in which autograd sees them, and PyTorch the parameters of a layer.
constexpr std::array kMembers = {&RecurrentWeights::input, &RecurrentWeights::hidden, &RecurrentWeights::input_bias,
                                 &RecurrentWeights::hidden_bias, &RecurrentWeights::projection};
constexpr size_t kStates = 3;  // x, h and c come before them

variable_list flat(const RecurrentLayer& layer) {
  variable_list all{layer.x, layer.h, layer.c};
  for (const RecurrentWeights& w : layer.weights)
    for (const auto member : kMembers) all.push_back(w.*member);
  return all;
}

RecurrentLayer layer_of(Cell cell, at::TensorList all, at::IntArrayRef batch_sizes) {
  RecurrentLayer layer{cell, all[0], all[1], all[2], {}, batch_sizes.vec()};
  for (size_t i = kStates; i < all.size() && all[i].defined(); i += kMembers.size()) {
    RecurrentWeights& w = layer.weights.emplace_back();
    for (size_t k = 0; k < kMembers.size(); ++k) w.*kMembers[k] = all[i + k];
  }
  return layer;
}

struct Call {
  Cell cell = Cell::tanh;
  at::Tensor x;            // [time, batch, features], or [rows, features] with batch_sizes
  at::Tensor batch_sizes;  // of packed sequences, on the host; else undefined
  at::Tensor h, c;         // of all layers and directions; c of an LSTM
  at::TensorList params;
  bool has_biases = true;
  int64_t num_layers = 1;
  double dropout = 0;
  bool train = false, bidirectional = false;
};

// PyTorch's own: cells, one after the other.
Three of_cells(const Call& call) {
  if (call.cell == Cell::lstm) {
    const std::array<at::Tensor, 2> states{call.h, call.c};
    if (call.batch_sizes.defined())
      return at::native::lstm(call.x, call.batch_sizes, states, call.params, call.has_biases, call.num_layers,
                              call.dropout, call.train, call.bidirectional);
    return at::native::lstm(call.x, states, call.params, call.has_biases, call.num_layers, call.dropout, call.train,
                            call.bidirectional, /*batch_first=*/false);
  }
  const auto of = [&](auto function) {
    Two result;
    if (call.batch_sizes.defined())
      result = function(call.x, call.batch_sizes, call.h, call.params, call.has_biases, call.num_layers, call.dropout,
                        call.train, call.bidirectional);
    else
      result = function(call.x, call.h, call.params, call.has_biases, call.num_layers, call.dropout, call.train,
                        call.bidirectional, /*batch_first=*/false);
    return Three{std::get<0>(result), std::get<1>(result), at::Tensor()};
  };
  switch (call.cell) {
    case Cell::gru: return of([](const auto&... x) { return at::native::gru(x...); });
    case Cell::relu: return of([](const auto&... x) { return at::native::rnn_relu(x...); });
    default: return of([](const auto&... x) { return at::native::rnn_tanh(x...); });
  }
}

// A layer's gradients in operations that have gradients themselves.
variable_list differentiable(const RecurrentLayer& layer, const variable_list& grads) {
  const at::AutoGradMode enabled(true);
  variable_list params;
  for (const RecurrentWeights& w : layer.weights)
    for (const auto member : kMembers)
      if ((w.*member).defined()) params.push_back(w.*member);
  std::vector<int64_t> sizes = layer.batch_sizes;
  const auto [out, h, c] = of_cells(
      {layer.cell, layer.x, at::from_blob(sizes.data(), {static_cast<int64_t>(sizes.size())}, at::kLong), layer.h,
       layer.c, params, layer.weights[0].input_bias.defined(), 1, 0.0, false, layer.directions() == 2});
  variable_list outputs, of_outputs;
  for (const auto& [result, grad] : {std::pair{out, grads[0]}, {h, grads[1]}, {c, grads[2]}}) {
    if (!grad.defined()) continue;
    outputs.push_back(result);
    of_outputs.push_back(grad);
  }
  const variable_list all = flat(layer);
  variable_list inputs, result(all.size());
  for (const at::Tensor& t : all)
    if (t.defined() && t.requires_grad()) inputs.push_back(t);
  const variable_list found = torch::autograd::grad(outputs, inputs, of_outputs, /*retain_graph=*/true,
                                                    /*create_graph=*/true, /*allow_unused=*/true);
  for (size_t i = 0, next = 0; i < all.size(); ++i)
    if (all[i].defined() && all[i].requires_grad()) result[i] = found[next++];
  return result;
}

// Autograd takes tensors that are there alone: bit i of `presence` is set for that at place i of flat().
int64_t presence_of(const variable_list& all) {
  int64_t presence = 0;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].defined()) presence |= int64_t{1} << i;
  return presence;
}
bool is_present(int64_t presence, size_t i) { return (presence >> i & 1) != 0; }

variable_list present(const variable_list& all) {
  variable_list some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [](const at::Tensor& t) { return t.defined(); });
  return some;
}

constexpr size_t kPlaces = kStates + 2 * kMembers.size();

variable_list spread(int64_t presence, at::TensorList some) {
  variable_list all(kPlaces);
  for (size_t i = 0, next = 0; i < all.size(); ++i)
    if (is_present(presence, i)) all[i] = some[next++];
  return all;
}

struct LayerFunction : torch::autograd::Function<LayerFunction> {
  static constexpr int64_t kArguments = 3;  // before the tensors

  static variable_list forward(AutogradContext* ctx, int64_t cell, const std::vector<int64_t>& batch_sizes,
                               int64_t presence, at::TensorList inputs) {
    const RecurrentLayer layer = layer_of(static_cast<Cell>(cell), spread(presence, inputs), batch_sizes);
    const ops::RecurrentResult result = ops::recurrent_layer(layer, /*keeps=*/true);
    variable_list saved = inputs.vec();
    for (const at::Tensor& t : {result.kept.gates, result.kept.inner, result.kept.before, result.kept.hidden})
      saved.push_back(t);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["cell"] = cell;
    ctx->saved_data["batch_sizes"] = batch_sizes;
    ctx->saved_data["presence"] = presence;
    ctx->set_materialize_grads(false);
    if (!result.c.defined()) return {result.out, result.h};
    return {result.out, result.h, result.c};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    constexpr size_t kKept = 4;
    const variable_list saved = ctx->get_saved_variables();
    const int64_t presence = ctx->saved_data["presence"].toInt();
    const at::TensorList inputs(saved.data(), saved.size() - kKept), kept(saved.data() + inputs.size(), kKept);
    const RecurrentLayer layer = layer_of(static_cast<Cell>(ctx->saved_data["cell"].toInt()), spread(presence, inputs),
                                          ctx->saved_data["batch_sizes"].toIntVector());
    grads.resize(3);
    variable_list found(kPlaces);
    if (grads[0].defined() || grads[1].defined() || grads[2].defined())
      found = at::GradMode::is_enabled()  // create_graph
                  ? differentiable(layer, grads)
                  : gradients(layer, {kept[0], kept[1], kept[2], kept[3]}, grads, needs_of(ctx, presence));
    variable_list result(kArguments);
    for (size_t i = 0; i < found.size(); ++i)
      if (is_present(presence, i)) result.push_back(found[i]);
    return result;
  }

 private:
  static ops::RecurrentNeeds needs_of(const AutogradContext* ctx, int64_t presence) {
    std::array<bool, kPlaces> needed{};
    for (size_t i = 0, next = 0; i < kPlaces; ++i)
      if (is_present(presence, i)) needed[i] = ctx->needs_input_grad(next++);
    const auto any = [&](size_t member) {
      bool one = false;
      for (size_t i = kStates + member; i < needed.size(); i += kMembers.size()) one = one || needed[i];
      return one;
    };
    return {.x = needed[0],
            .h = needed[1],
            .c = needed[2],
            .input = any(0),
            .hidden = any(1),
            .input_bias = any(2),
            .hidden_bias = any(3),
            .projection = any(4)};
  }

  static variable_list gradients(const RecurrentLayer& layer, const ops::RecurrentKept& kept,
                                 const variable_list& grads, const ops::RecurrentNeeds& needs) {
    const ops::RecurrentGradients found =
        ops::recurrent_layer_backward(layer, kept, grads[0], grads[1], grads[2], needs);
    variable_list all{found.x, found.h, found.c};
    for (const RecurrentWeights& w : found.weights)
      for (const auto member : kMembers) all.push_back(w.*member);
    return all;
  }
};

// The layers of a call, of which the later ones have no x yet; nothing where one of them is not served.
std::vector<RecurrentLayer> layers_of(const Call& call, const at::Tensor& rows, at::IntArrayRef batch_sizes) {
  const int64_t directions = call.bidirectional ? 2 : 1;
  if (call.h.dim() != 3 || (call.c.defined() && call.c.dim() != 3)) return {};
  if (call.h.size(0) != call.num_layers * directions || (call.c.defined() && call.c.size(0) != call.h.size(0)))
    return {};
  const bool projected = call.c.defined() && call.h.size(2) != call.c.size(2);
  const size_t each = 2 + (call.has_biases ? 2 : 0) + (projected ? 1 : 0);
  if (call.params.size() != each * static_cast<size_t>(call.h.size(0))) return {};
  std::vector<RecurrentLayer> layers;
  const at::Tensor* param = call.params.begin();
  for (int64_t i = 0; i < call.num_layers; ++i) {
    const auto of_layer = [&](const at::Tensor& t) {
      return t.defined() ? t.narrow(0, i * directions, directions) : at::Tensor();
    };
    RecurrentLayer layer{call.cell, rows, of_layer(call.h), of_layer(call.c), {}, batch_sizes.vec()};
    for (int64_t d = 0; d < directions; ++d) {
      RecurrentWeights& w = layer.weights.emplace_back();
      for (size_t k = 0; k < kMembers.size(); ++k)
        if (k < 2 || (k < 4 ? call.has_biases : projected)) w.*kMembers[k] = *param++;
    }
    if (!ops::recurrent_layer_serves(layer, i == 0 ? rows.size(1) : directions * call.h.size(2))) return {};
    layers.push_back(std::move(layer));
  }
  return layers;
}

variable_list run_layer(const RecurrentLayer& layer) {
  const variable_list all = flat(layer), inputs = present(all);
  const bool differentiated =
      at::GradMode::is_enabled() &&
      std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.requires_grad(); });
  if (differentiated)
    return LayerFunction::apply(static_cast<int64_t>(layer.cell), layer.batch_sizes, presence_of(all),
                                at::TensorList(inputs));
  const ops::RecurrentResult result = ops::recurrent_layer(layer, /*keeps=*/false);
  return {result.out, result.h, result.c};
}

// All rows, time by time, and how many sequences each time has.
std::pair<at::Tensor, std::vector<int64_t>> rows_of(const Call& call) {
  if (call.batch_sizes.defined()) {
    const at::Tensor sizes = call.batch_sizes.contiguous();
    const int64_t* first = sizes.const_data_ptr<int64_t>();
    return {call.x, std::vector<int64_t>(first, first + sizes.numel())};
  }
  const int64_t times = call.x.size(0), batch = call.x.size(1);
  return {call.x.reshape({times * batch, call.x.size(2)}), std::vector<int64_t>(static_cast<size_t>(times), batch)};
}

bool has_layout(const Call& call) {
  if (!call.batch_sizes.defined()) return call.x.dim() == 3 && call.x.numel() != 0;
  return call.x.dim() == 2 && call.batch_sizes.device().is_cpu() && call.batch_sizes.scalar_type() == at::kLong &&
         call.batch_sizes.dim() == 1 && call.batch_sizes.numel() != 0;
}

// Each time has at most as many sequences as the one before, the first the whole batch, and they are the rows of x.
bool fits(const std::vector<int64_t>& batch_sizes, const at::Tensor& rows, const at::Tensor& h) {
  int64_t sum = 0;
  for (const int64_t size : batch_sizes) sum += size;
  return sum == rows.size(0) && h.dim() == 3 && batch_sizes.front() == h.size(1) && batch_sizes.back() > 0 &&
         std::is_sorted(batch_sizes.rbegin(), batch_sizes.rend());
}

bool is_plain_call(const Call& call) {
  const auto plain = [](const at::Tensor& t) { return !t.defined() || is_plain(t); };
  return !is_traced() && plain(call.x) && plain(call.h) && plain(call.c) &&
         std::all_of(call.params.begin(), call.params.end(), plain);
}

Three run(const Call& call) {
  if (!is_plain_call(call) || !has_layout(call)) return of_cells(call);
  const auto [rows, batch_sizes] = rows_of(call);
  if (!fits(batch_sizes, rows, call.h)) return of_cells(call);
  std::vector<RecurrentLayer> layers = layers_of(call, rows, batch_sizes);
  if (layers.empty()) return of_cells(call);
  at::Tensor out = rows;
  std::vector<at::Tensor> h, c;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i > 0 && call.train && call.dropout != 0) out = at::dropout(out, call.dropout, true);
    layers[i].x = out;
    const variable_list results = run_layer(layers[i]);
    out = results[0];
    h.push_back(results[1]);
    if (call.c.defined()) c.push_back(results[2]);
  }
  if (!call.batch_sizes.defined()) out = out.view({call.x.size(0), call.x.size(1), out.size(1)});
  const auto of_layers = [](const std::vector<at::Tensor>& parts) {
    return parts.empty() ? at::Tensor() : parts.size() == 1 ? parts[0] : at::cat(parts);
  };
  return {out, of_layers(h), of_layers(c)};
}

// As cuDNN's layers on CUDA: everything in the autocast dtype.
Three run_autocast(Call call) {
  constexpr auto kDevice = c10::DeviceType::PrivateUse1;
  if (!at::autocast::is_autocast_enabled(kDevice)) return run(call);
  const auto dtype = at::autocast::get_autocast_dtype(kDevice);
  const auto cast = [&](const at::Tensor& t) { return t.defined() ? at::autocast::cached_cast(dtype, t, kDevice) : t; };
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  std::vector<at::Tensor> params;
  for (const at::Tensor& t : call.params) params.push_back(cast(t));
  call.x = cast(call.x);
  call.h = cast(call.h);
  call.c = cast(call.c);
  call.params = params;
  return run(call);
}

Three run_batch_first(Call call, bool batch_first) {
  batch_first = batch_first && call.x.dim() == 3;
  if (batch_first) call.x = call.x.transpose(0, 1);
  Three result = run_autocast(call);
  if (batch_first) std::get<0>(result) = std::get<0>(result).transpose(0, 1);
  return result;
}

Call lstm_call(const at::Tensor& x, const at::Tensor& batch_sizes, at::TensorList hx, at::TensorList params,
               bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  return {Cell::lstm, x, batch_sizes, hx[0], hx[1], params, has_biases, num_layers, dropout, train, bidirectional};
}

Three lstm_input(const at::Tensor& x, at::TensorList hx, at::TensorList params, bool has_biases, int64_t num_layers,
                 double dropout, bool train, bool bidirectional, bool batch_first) {
  return run_batch_first(lstm_call(x, {}, hx, params, has_biases, num_layers, dropout, train, bidirectional),
                         batch_first);
}

Three lstm_data(const at::Tensor& x, const at::Tensor& batch_sizes, at::TensorList hx, at::TensorList params,
                bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional) {
  return run_autocast(lstm_call(x, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional));
}

Two without_c(Three result) { return {std::get<0>(result), std::get<1>(result)}; }

template <Cell cell>
Two input(const at::Tensor& x, const at::Tensor& h, at::TensorList params, bool has_biases, int64_t num_layers,
          double dropout, bool train, bool bidirectional, bool batch_first) {
  return without_c(run_batch_first({cell, x, {}, h, {}, params, has_biases, num_layers, dropout, train, bidirectional},
                                   batch_first));
}

template <Cell cell>
Two data(const at::Tensor& x, const at::Tensor& batch_sizes, const at::Tensor& h, at::TensorList params,
         bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional) {
  return without_c(
      run_autocast({cell, x, batch_sizes, h, {}, params, has_biases, num_layers, dropout, train, bidirectional}));
}

// Above autograd, and below it for tensors of inference mode, which have none.
void register_layers(torch::Library& m) {
  m.impl("lstm.input", GUARDED(lstm_input));
  m.impl("lstm.data", GUARDED(lstm_data));
  m.impl("gru.input", GUARDED(input<Cell::gru>));
  m.impl("gru.data", GUARDED(data<Cell::gru>));
  m.impl("rnn_tanh.input", GUARDED(input<Cell::tanh>));
  m.impl("rnn_tanh.data", GUARDED(data<Cell::tanh>));
  m.impl("rnn_relu.input", GUARDED(input<Cell::relu>));
  m.impl("rnn_relu.data", GUARDED(data<Cell::relu>));
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { register_layers(m); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { register_layers(m); }

}  // namespace
}  // namespace aule::aten

"""Programs that write into their inputs, into views of them, and into what they made themselves."""

import torch

from compiled.row import Table, bools, ints, like, normal

table = Table("mutation")
X, Y = normal(8, 30), normal(8, 30)


@table.add(X, Y)
def add_into_an_input(x, y):
    x.add_(y)
    return x * 2


@table.add(X)
def an_input_several_times(x):
    x += 1
    x *= 2
    x.sigmoid_()
    x.relu_()
    return x.view(-1) + 3


@table.add(X)
def an_input_by_its_view(x):
    y = x.view(-1)
    y += 3
    x.t().mul_(2)
    return x + 1


@table.add(X)
def read_before_and_after(x):
    before = x * 2
    x.copy_(before + 1)
    return before, x + before


@table.add(X, Y)
def slices_of_an_input(x, y):
    x[2:4] = 7
    x[:, 3] = y[:, 0]
    x[0, :5] += 1
    return x.sum(0)


@table.add(X)
def overlapping_slices(x):
    x[:, 2:11] = x[:, 1:10] + 2
    x[:, 20:29] = x[:, 20:29] + 1
    return x * 1


@table.add(X)
def a_slice_that_steps(x):
    x[::2, 1::3].mul_(3)
    x[1::2].fill_(0.5)
    return x + 1


@table.add(X, Y)
def two_inputs(x, y):
    t = x + y
    x.copy_(y)
    y.copy_(t)
    return t


@table.add(X, ints(20, low=0, high=8))
def rows_by_index(x, i):
    x.index_add_(0, i, torch.ones(20, 30, device=x.device, dtype=x.dtype))
    x[i[:1]] = 2
    return x * 2


@table.add(X, bools(8, 30))
def by_a_mask(x, m):
    x[m] = 0
    x.masked_fill_(~m, 1.5)
    return x + 1


@table.add(X)
def what_the_program_made(x):
    z = torch.zeros_like(x)
    b = z + 1
    z[:, 3] = 3
    c = z.clone()
    z[4] = x[4]
    return z, b, c, z + 1


@table.add(X)
def a_view_taken_before(x):
    y = x.clone()
    v = y[2:5]
    y.add_(1)
    v.mul_(2)
    return y, v + 1


@table.add(X)
def filled_piece_by_piece(x):
    out = torch.empty_like(x)
    for k in range(8):
        out[k] = x[k] * k
    return out


@table.add(X)
def accumulated_in_a_loop(x):
    s = x.new_zeros(30)
    for k in range(8):
        s += x[k]
        s = s * 0.9
    return s


@table.add(X)
def zeroed(x):
    y = x * 2
    x.zero_()
    return y


@table.add(X)
def transposed_output_filled(x):
    out = torch.zeros(30, 8, device=x.device, dtype=x.dtype)
    out.t().copy_(x)
    return out, out.t() + 1


@table.add(X)
def swapped_columns(x):
    y = x.clone()
    y[:, [2, 0]] = y[:, [0, 2]]
    return y + x


@table.add(X)
def swapped_by_slices(x):
    y = x[:, :15].clone()
    x[:, :15] = x[:, 15:]
    x[:, 15:] = y
    return x + 0


@table.add(X, Y)
def results_given(x, y):
    torch.add(x, 1, out=y)
    return y * 2


@table.add(X, Y, tolerance=1e-2)  # two roundings to float16 of values up to 5, that fused code leaves out, doubled
def in_place_of_another_dtype(x, y):
    z = x.double() + y
    w = x.half()
    w.add_(1)
    y.add_(w)
    return z, y * 2


@table.add(ints(40), exact=True)
def integers_in_place(i):
    i += 3
    i //= 2
    i &= 15
    i <<= 1
    return i + 1


@table.add(normal())
def a_number_in_place(x):
    x.add_(1).mul_(2)
    return x * 3


@table.add(like(normal(30, 8), lambda t: t.t()), Y)
def a_transposed_input(x, y):
    x.add_(y)
    return x.contiguous() * 2


@table.add(like(normal(8, 61), lambda t: t[:, 1:]), normal(8, 60))
def an_input_with_an_offset(x, y):
    x.mul_(y)
    x[:, 0] = 5
    return x.sum()


@table.add(X)
def a_result_is_the_input(x):
    x.add_(1)
    return x


@table.add(X)
def a_result_is_a_view_of_the_changed_input(x):
    x.add_(1)
    return x[2:], x.t()


@table.add(X, Y)
def a_copy_of_the_old_value_lives_on(x, y):
    old = x.clone()
    x.lerp_(y, 0.25)
    return old - x


@table.add(normal(30), normal(30), normal(30), normal(30))
def adam_by_hand(p, g, m, v):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.99).addcmul_(g, g, value=0.01)
    p.addcdiv_(m / 0.1, (v / 0.01).sqrt() + 1e-8, value=-1e-2)
    return (p.norm(),)


@table.add(normal(30), normal(30), normal(4, 5), normal(4, 5))
def lists_of_tensors(p, g, q, h):
    torch._foreach_mul_([p, q], 0.9)
    torch._foreach_add_([p, q], [g, h], alpha=-0.1)
    return torch._foreach_norm([p, q])


@table.add(normal(5), normal(5), normal(7, 5))
def running_statistics(mean, var, x):
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    var.mul_(0.9).add_(x.var(0), alpha=0.1)
    return (x - mean) / (var.abs() + 1e-5).sqrt()


@table.add(normal(2, 16, 8), normal(2, 3, 8))
def a_cache(cache, x):
    cache[:, 5:8] = x
    return (cache[:, :8] * x[:, :1]).sum(-1)


@table.add(normal(2, 16, 8), normal(2, 1, 8), lambda: torch.tensor([7]))
def a_cache_at_a_position(cache, x, position):
    cache.index_copy_(1, position, x)
    return cache.sum(1)


@table.add(X)
def detached_and_changed(x):
    y = x.detach() * 2
    y.add_(x)
    return y


@table.add(X)
def clamped_in_place(x):
    x.clamp_(-1, 1).round_()
    return x.abs_() + 1


@table.add(X, Y)
def copied_from_a_broadcast(x, y):
    x.copy_(y[:1])
    x[:, :3].copy_(y[:, 3:4])
    return x * 2


@table.add(X)
def scattered_in_place(x):
    i = torch.arange(7, -1, -1, device=x.device)[:, None].expand(8, 30)
    y = x * 2
    x.scatter_(0, i, y)
    return x + y


@table.add(X)
def diagonal_in_place(x):
    x.diagonal(5).add_(1)
    x.diagonal().fill_(3)
    return x * 2


@table.add(X)
def triangle_in_place(x):
    x.tril_()
    y = x.clone()
    y.transpose_(0, 1)
    return y + x.t()


@table.add(X, Y)
def a_sum_is_stored_and_used(x, y):
    s = x.sum(1)
    x[:, 0] = s
    return s * 2, (x * y).sum(1)


@table.add(X)
def softmax_into_the_input(x):
    x.copy_(x.softmax(1))
    return x.sum(1)


@table.add(X, Y)
def set_where(x, y):
    torch.where(x > 0, x, y, out=x)
    return x + 1


@table.add(ints(6, 7, low=0, high=9), bools(6, 7), exact=True)
def masks_in_place(i, m):
    m |= i > 4
    m ^= i == 2
    i[m] = -1
    return i.sum(), m.any(0)


@table.add(normal(0, 4))
def nothing_in_place(x):
    x.add_(1)
    return x * 2

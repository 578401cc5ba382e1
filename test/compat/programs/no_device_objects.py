"""Without a driver Aule and install() compute on the CPU, and one warning says so."""

import warnings

import numpy as np
import torch
import torch.nn.functional as F

import aule
import torch_aule

rng = np.random.default_rng()
q, k, v, grad = (rng.standard_normal((2, 3, 9, 8)).astype(np.float32) for _ in range(4))
angles = np.outer(np.arange(9), 10.0 ** -np.arange(4)).astype(np.float32)


def expected(causal):
    tensors = [torch.from_numpy(t).double().requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*tensors, is_causal=causal)
    return out, torch.autograd.grad(out, tensors, torch.from_numpy(grad).double())


with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    with aule.Aule() as device:
        info = device.get_device_info()
        assert info["device_name"] == "CPU" and info["available_variants"] == ["cpu"], info
        tensors = [device.tensor(t.shape) for t in (q, k, v, q)]
        for tensor, array in zip(tensors, (q, k, v)):
            tensor.upload(array)
        device.attention_gpu(*tensors, causal=False)
        assert np.abs(tensors[3].download() - expected(False)[0].detach().numpy()).max() < 1e-5
        out, lse = device.attention_forward_with_lse(q, k, v)
        gradients = device.attention_backward(q, k, v, out, grad, lse)
        for ours, theirs in zip((out, *gradients), (expected(True)[0].detach(), *expected(True)[1])):
            assert np.abs(ours - theirs.numpy()).max() < 1e-4
        turned = device.attention(q, k, v, np.cos(angles), np.sin(angles))
        assert turned.shape == q.shape and np.abs(turned - out).max() > 1e-3
    assert aule.install() == "cpu"
    for call in (lambda: aule.install("vulkan"), lambda: aule.Aule(0)):
        try:
            call()
        except aule.VulkanInitError as error:
            assert torch.aule.unavailable_reason() in str(error), error
        else:
            raise AssertionError("no error")
said = [str(w.message) for w in seen if "Falling back to CPU simulation backend" in str(w.message)]
assert len(said) == 1 and torch.aule.unavailable_reason() in said[0], said
assert torch_aule.get_available_backends() == ["cpu"]
information = torch_aule.get_backend_info()
assert not information["vulkan"]["available"] and information["cpu"]["installed"]
assert information["vulkan"]["description"] == torch.aule.unavailable_reason()
found = F.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), is_causal=True)
assert np.abs(found.numpy() - out).max() < 1e-5

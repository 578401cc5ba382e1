/* The C interface of torch_aule: attention over host memory, for programs without Python. docs/use/aule_attention.md
 * says how to link. Functions that return int32_t return AULE_SUCCESS or one of the negative codes, and
 * aule_get_error() then says what happened. Every function may be called from any thread. */
#ifndef AULE_H
#define AULE_H

#include <stdint.h>

#if defined(AULE_API)
/* the library itself */
#elif defined(_WIN32)
#define AULE_API __declspec(dllimport)
#else
#define AULE_API __attribute__((visibility("default")))
#endif

#define AULE_SUCCESS 0
#define AULE_ERROR_UNKNOWN (-1)
#define AULE_ERROR_VULKAN_INIT (-2)      /* no Vulkan loader, driver or device that serves */
#define AULE_ERROR_NO_COMPUTE_QUEUE (-3) /* devices, but none computes */
#define AULE_ERROR_OUT_OF_MEMORY (-4)
#define AULE_ERROR_INVALID_SHAPE (-5)  /* a size, a number or a pointer that does not fit */
#define AULE_ERROR_SHADER_COMPILE (-6) /* a driver does not compile a kernel */
#define AULE_ERROR_DEVICE_LOST (-7)    /* the device is of no use any more in this process */

#ifdef __cplusplus
extern "C" {
#endif

/* Starts device 0. Calling it is not needed, and a second call does nothing. */
AULE_API int32_t aule_init(void);

/* Waits for the device and gives its cached memory back to the driver. What is called afterwards starts it again. */
AULE_API void aule_shutdown(void);

/* out = softmax(scale * q k^T) v. float32 arrays in host memory, C order: q [batch, heads, seq_q, head_dim], k and v
 * [batch, heads, seq_kv, head_dim], out like q, which overlaps none of them. causal: not 0, if query i sees the keys
 * j <= i alone. scale: 0 for 1 / sqrt(head_dim), else above 0. A query that sees no key gives zeros. `out` is written
 * when the function returns, and only on success. */
AULE_API int32_t aule_flash_attention_forward(const float* q, const float* k, const float* v, float* out, int64_t batch,
                                              int64_t heads, int64_t seq_q, int64_t seq_kv, int64_t head_dim,
                                              int32_t causal, float scale);

/* out[i] = 2 in[i], computed by the device: whether everything from driver to kernel works. */
AULE_API int32_t aule_test_multiply(const float* in, float* out, int64_t count);

/* What the last call of this thread reported, in English; empty after success. Valid until the thread's next call. */
AULE_API const char* aule_get_error(void);

#ifdef __cplusplus
}
#endif

#endif

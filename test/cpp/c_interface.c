/* A program without Python: c_interface INPUT OUTPUT. INPUT has batch, heads, seq_q, seq_kv, head_dim, causal as int64,
 * scale as float32, then q, k and v; OUTPUT gets what aule_flash_attention_forward makes of them. */
#include <aule.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                    \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      fprintf(stderr, "line %d: %s is not so; last error: '%s'\n", __LINE__, #condition, aule_get_error()); \
      exit(1);                                                                                              \
    }                                                                                                       \
  } while (0)

static void multiply(void) {
  float in[64], out[64];
  for (int i = 0; i < 64; i++) in[i] = (float)i - 31.5f;
  CHECK(aule_test_multiply(in, out, 64) == AULE_SUCCESS);
  for (int i = 0; i < 64; i++) CHECK(out[i] == 2 * in[i]);
  CHECK(aule_test_multiply(in, out, 0) == AULE_SUCCESS);
  CHECK(aule_test_multiply(NULL, out, 64) == AULE_ERROR_INVALID_SHAPE);
  CHECK(aule_test_multiply(in, out, -1) == AULE_ERROR_INVALID_SHAPE);
  CHECK(strstr(aule_get_error(), "expected count of at least 0, but got -1") != NULL);
  CHECK(aule_test_multiply(in, out, INT64_C(1) << 62) == AULE_ERROR_INVALID_SHAPE);
}

static void errors(void) {
  float a[64] = {0}, out[64] = {7};
  const int32_t invalid = AULE_ERROR_INVALID_SHAPE;
  CHECK(aule_flash_attention_forward(a, a, a, out, 1, -2, 4, 4, 16, 0, 0) == invalid);
  CHECK(strstr(aule_get_error(), "expected heads of at least 0, but got -2") != NULL);
  CHECK(aule_flash_attention_forward(a, a, a, out, 1, 1, 4, 4, 16, 0, -1) == invalid);
  CHECK(strstr(aule_get_error(), "expected scale") != NULL);
  CHECK(aule_flash_attention_forward(a, NULL, a, out, 1, 1, 4, 4, 16, 0, 0) == invalid);
  CHECK(strstr(aule_get_error(), "a pointer is null") != NULL);
  CHECK(aule_flash_attention_forward(a, a, a, a + 32, 1, 1, 4, 4, 16, 0, 0) == invalid);
  CHECK(strstr(aule_get_error(), "out overlaps an operand") != NULL);
  CHECK(aule_flash_attention_forward(a, a, a, out, 1, 1, 1, 1, 513, 0, 0) == invalid);
  CHECK(strstr(aule_get_error(), "expected head_dim from 1 to 512, but got 513") != NULL);
  CHECK(out[0] == 7);
  CHECK(aule_flash_attention_forward(a, a, a, out, 1, 1, 0, 4, 16, 0, 0) == AULE_SUCCESS);
  CHECK(strcmp(aule_get_error(), "") == 0);
  CHECK(aule_flash_attention_forward(a, NULL, NULL, out, 1, 1, 4, 0, 16, 0, 0) == AULE_SUCCESS);
  CHECK(out[0] == 0); /* a query that sees no key */
}

static void* fail_elsewhere(void* unused) {
  CHECK(strcmp(aule_get_error(), "") == 0);
  CHECK(aule_test_multiply(NULL, NULL, 1) == AULE_ERROR_INVALID_SHAPE);
  CHECK(strstr(aule_get_error(), "aule_test_multiply") != NULL);
  return unused;
}

static float* read_floats(FILE* file, int64_t count) {
  float* values = malloc((size_t)(count > 0 ? count : 1) * sizeof *values);
  CHECK(values != NULL && fread(values, sizeof *values, (size_t)count, file) == (size_t)count);
  return values;
}

int main(int count, char** arguments) {
  CHECK(count == 3);
  CHECK(aule_init() == AULE_SUCCESS && aule_init() == AULE_SUCCESS);
  multiply();
  errors();

  pthread_t thread;
  CHECK(aule_test_multiply(NULL, NULL, -5) == AULE_ERROR_INVALID_SHAPE);
  CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(strstr(aule_get_error(), "-5") != NULL);

  FILE* file = fopen(arguments[1], "rb");
  int64_t sizes[6];
  float scale;
  CHECK(file != NULL && fread(sizes, sizeof sizes, 1, file) == 1 && fread(&scale, sizeof scale, 1, file) == 1);
  const int64_t heads = sizes[0] * sizes[1], queries = heads * sizes[2] * sizes[4], keys = heads * sizes[3] * sizes[4];
  float *q = read_floats(file, queries), *k = read_floats(file, keys), *v = read_floats(file, keys);
  fclose(file);
  aule_shutdown(); /* and what follows starts the device again */
  float* out = malloc((size_t)queries * sizeof *out);
  CHECK(out != NULL);
  CHECK(aule_flash_attention_forward(q, k, v, out, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], (int32_t)sizes[5],
                                     scale) == AULE_SUCCESS);
  file = fopen(arguments[2], "wb");
  CHECK(file != NULL && fwrite(out, sizeof *out, (size_t)queries, file) == (size_t)queries && fclose(file) == 0);
  aule_shutdown();
  aule_shutdown();
  return 0;
}

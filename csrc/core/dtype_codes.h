/* Storage dtype codes, read by C++ and by GLSL: the only list of them.
 * RAW* move bits without meaning: copies, gathers and concatenations of any dtype of that size. */
#define AULE_DT_F32 0
#define AULE_DT_F16 1
#define AULE_DT_BF16 2
#define AULE_DT_F64 3
#define AULE_DT_I8 4
#define AULE_DT_U8 5
#define AULE_DT_I16 6
#define AULE_DT_I32 7
#define AULE_DT_I64 8
#define AULE_DT_BOOL 9
#define AULE_DT_RAW1 10
#define AULE_DT_RAW2 11
#define AULE_DT_RAW4 12
#define AULE_DT_RAW8 13
#define AULE_DT_RAW16 14
/* Complex numbers: the real part, then the imaginary one, of two float32, float64, float16. */
#define AULE_DT_C64 15
#define AULE_DT_C128 16
#define AULE_DT_C32 17

/* Codes that a kernel writes to the device's error record (see shaders/common/errors.glsl). */
#define AULE_ERR_NONE 0
#define AULE_ERR_INDEX_OUT_OF_RANGE 1
#define AULE_ERR_CLASS_OUT_OF_RANGE 2
#define AULE_ERR_INVALID_PROBABILITY 3
#define AULE_ERR_ASSERT 4

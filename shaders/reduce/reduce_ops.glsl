// Codes of reduce.comp's OP, in the order of ReduceOp in csrc/ops/reduce/plan.h.
#define OP_SUM 0
#define OP_MEAN 1
#define OP_NANSUM 2
#define OP_PROD 3
#define OP_MAX 4
#define OP_MIN 5
#define OP_ANY 6
#define OP_ALL 7
#define OP_COUNT 8    // elements that are not zero
#define OP_NORM1 9
#define OP_NORM2 10
#define OP_NORM_MAX 11
#define OP_NORM_MIN 12
#define OP_NORM_P 13  // (sum |x|^p)^(1/p), p in params
#define OP_VAR 14
#define OP_STD 15
#define OP_LSE 16

// Specialization constants of a pointwise kernel behind OP: storage dtype and access of out and of each operand. What
// the values of MODE mean is said in the file that includes this.
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int OUT_MODE = 0;
layout(constant_id = 3) const int A_DTYPE = 0;
layout(constant_id = 4) const int A_MODE = 0;
layout(constant_id = 5) const int B_DTYPE = 0;
layout(constant_id = 6) const int B_MODE = 0;
layout(constant_id = 7) const int C_DTYPE = 0;
layout(constant_id = 8) const int C_MODE = 0;

// The gradients of gamma_grad.comp.

REAL digamma(REAL x) {  // x > 0
  REAL y = REAL(0);
  for (int k = 0; k < 10 && x < REAL(10); ++k) {
    y -= REAL(1) / x;
    x += REAL(1);
  }
  const REAL z = REAL(1) / (x * x);
  const REAL tail = REAL(1) / REAL(12) - z * (REAL(1) / REAL(120) - z * (REAL(1) / REAL(252) -
      z * (REAL(1) / REAL(240) - z * (REAL(1) / REAL(132) - z * (REAL(691) / REAL(32760) - z / REAL(12))))));
  return y + log(x) - REAL(0.5) / x - z * tail;
}
REAL number_or_zero(REAL x) { return is_nan(x) ? REAL(0) : x; }

// x < 0.8: the power series of the incomplete gamma function, divided by the density.
REAL gamma_gradient_series(REAL x, REAL alpha) {
  REAL term = REAL(1), sum = REAL(1) / alpha, slope = sum / alpha;
  for (int k = 1; k <= 5; ++k) {
    term *= -x / REAL(k);
    const REAL t = term / (alpha + REAL(k));
    sum += t;
    slope += t / (alpha + REAL(k));
  }
  return number_or_zero(x * exp(x) * (slope - (log(x) - digamma(alpha)) * sum));
}
// alpha > 8: Rice's saddle point.
REAL gamma_gradient_saddle(REAL x, REAL alpha) {
  const REAL square = alpha * alpha, r = (x - alpha) / alpha;
  if (REAL(0.9) * alpha <= x && x <= REAL(1.1) * alpha) {
    const REAL scale = REAL(1) + REAL(24) * alpha * (REAL(1) + REAL(12) * alpha);
    const REAL rest = REAL(1440) * square + REAL(6) * x * (REAL(53) - REAL(120) * x) - REAL(65) * x * x / alpha +
        alpha * (REAL(107) + REAL(3600) * x);
    return scale / square * (rest / square) / REAL(1244160);
  }
  const REAL width = sqrt(REAL(8) * alpha), exponent = alpha * minus_log1p(r);
  const REAL far = REAL(1) / (exponent * sqrt(exponent)), near = -width / (alpha * r);
  const REAL both = log(x / alpha) * (r < REAL(0) ? near - far : near + far) -
      sqrt(REAL(2) / alpha) * (REAL(2) + r) / (alpha * r * r);
  const REAL stirling = REAL(1) + (REAL(1) + REAL(1) / (REAL(24) * alpha)) / (REAL(12) * alpha);
  return -stirling * x * both / width;
}
// The logarithm is a quotient of cubics in log alpha, whose coefficients are squares in log(x / alpha).
REAL gamma_gradient_fit(REAL x, REAL alpha) {
  const float fit[24] = float[24](0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1.0, 0.32668115, 0.10406089,
      0.0014179084, 0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915,
      -0.00058392623, 0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326,
      0.00085092367, -1.5247877e-07);
  const REAL u = log(x / alpha), v = log(alpha);
  REAL top = REAL(0), bottom = REAL(0);
  for (int k = 3; k >= 0; --k) {
    top = top * v + (REAL(fit[k]) + u * (REAL(fit[8 + k]) + u * REAL(fit[16 + k])));
    bottom = bottom * v + (REAL(fit[4 + k]) + u * (REAL(fit[12 + k]) + u * REAL(fit[20 + k])));
  }
  return exp(top / bottom);
}
REAL gamma_gradient(REAL x, REAL alpha) {
  if (x < REAL(0.8)) return gamma_gradient_series(x, alpha);
  return alpha > REAL(8) ? gamma_gradient_saddle(x, alpha) : gamma_gradient_fit(x, alpha);
}

// x near 0, by alpha: the power series of the incomplete beta function.
REAL beta_gradient_series(REAL x, REAL alpha, REAL beta) {
  const REAL factor = digamma(alpha) - digamma(alpha + beta) - log(x);
  REAL term = REAL(1), sum = (factor + REAL(1) / alpha) / alpha;
  for (int k = 1; k <= 10; ++k) {
    term *= (REAL(k) - beta) * x / REAL(k);
    const REAL at = alpha + REAL(k);
    sum += term / at * (factor + REAL(1) / at);
  }
  return number_or_zero(x * exp(-beta * log(REAL(1) - x)) * sum);
}
// x near 0, by beta.
REAL beta_gradient_series_other(REAL x, REAL alpha, REAL beta) {
  const REAL factor = digamma(alpha + beta) - digamma(beta);
  REAL term = REAL(1), product = REAL(1), slope = REAL(0), sum = factor / alpha;
  for (int k = 1; k <= 8; ++k) {
    term *= -x / REAL(k);
    slope = slope * (beta - REAL(k)) + product;
    product *= beta - REAL(k);
    sum += term / (alpha + REAL(k)) * (slope + factor * product);
  }
  return number_or_zero(-exp((REAL(1) - beta) * log(REAL(1) - x)) * sum);
}
// Both parameters above 6: Rice's saddle point.
REAL beta_gradient_saddle(REAL x, REAL alpha, REAL beta) {
  const REAL total = alpha + beta, mean = alpha / total, deviation = sqrt(alpha * beta / (total + REAL(1))) / total;
  if (abs(x - mean) <= REAL(0.1) * deviation) {
    // In a = alpha / beta, so that no power of a parameter overflows.
    const REAL a = alpha / beta, b = REAL(1) / beta, y = REAL(1) - x;
    const REAL sum = REAL(47) * x * b + a * (REAL(540) * x + (REAL(43) + REAL(320) * x) * b +
        a * (REAL(540) + (REAL(177) - REAL(270) * x) * b + a * (REAL(1620) * y + (REAL(453) - REAL(455) * x) * b +
        a * (REAL(8) * y * (REAL(135) - REAL(11) * b)))));
    const REAL scale = (REAL(1) + REAL(12) * alpha) / alpha * ((REAL(1) + REAL(12) * beta) / beta) /
        ((REAL(1) + REAL(12) * total) * REAL(12960));
    const REAL ratio = beta / total;
    return scale * ratio * ratio * sum / (a * a * y);
  }
  const REAL distance = total * x - alpha;  // = beta x + alpha (x - 1)
  const REAL exponent = alpha * minus_log1p(distance / alpha) + beta * minus_log1p(-distance / beta);
  const REAL far = REAL(1) / (exponent * sqrt(exponent)), near = sqrt(REAL(8) * alpha * beta / total) / distance;
  const REAL first = (REAL(2) * alpha * alpha * (x - REAL(1)) + alpha * beta * (x - REAL(1)) - x * beta * beta) /
      (sqrt(REAL(2) * alpha / beta) * total * sqrt(total) * distance * distance);
  const REAL both = first + REAL(0.5) * log(alpha / (total * x)) * (x < mean ? near + far : near - far);
  const REAL a = REAL(1) / (REAL(12) * alpha), b = REAL(1) / (REAL(12) * beta), t = REAL(1) / (REAL(12) * total);
  const REAL stirling = (REAL(1) + a + a * a / REAL(2)) * (REAL(1) + b + b * b / REAL(2)) /
      (REAL(1) + t + t * t / REAL(2));
  return -stirling * x / sqrt(REAL(2) * alpha * beta / total) * both;
}
// A quotient of polynomials in log x, log(alpha / x) and log(total x / alpha), times an analytic approximation.
REAL beta_gradient_fit(REAL x, REAL alpha, REAL total) {
  const float fit[72] = float[72](
      1.003668233, -0.01061107488, -0.0657888334, 0.01201642863, 0.6336835991, -0.3557432599, 0.05486251648,
      -0.001465281033, -0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013, 0.221950385, -0.3187676331,
      0.01799915743, 0.01074823814, -0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057, 0.02155310298,
      0.004170831599, 0.001292462449, 6.976601077e-05, -0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565,
      0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181, 0.005900514878, -0.001936558688, -9.495446725e-06,
      5.385558597e-05, 1.0, -0.02924021934, -0.04438342661, 0.007285809825, 0.6357567472, -0.3473456711, 0.05454656494,
      -0.002407477521, -0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149, 0.5925320577, -0.1757678135,
      0.01505928619, 0.000564515273, 0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956, -0.007258481865,
      0.001096195486, 0.0003934994223, -4.12701925e-05, 0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05,
      0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05, -0.0003477407336, 6.959756487e-05,
      1.097287507e-05, -1.650964693e-06);
  const REAL u = log(x), a = log(alpha) - u, b = log(total) - a;
  REAL sums[2];
  for (int part = 0; part < 2; ++part) {
    REAL sum = REAL(0);
    for (int i = 2; i >= 0; --i) {
      REAL row = REAL(0);
      for (int j = 2; j >= 0; --j) {
        const int at = ((part * 3 + i) * 3 + j) * 4;
        row = row * a + (REAL(fit[at]) + b * (REAL(fit[at + 1]) + b * (REAL(fit[at + 2]) + b * REAL(fit[at + 3]))));
      }
      sum = sum * u + row;
    }
    sums[part] = sum;
  }
  return sums[0] / sums[1] * x * (digamma(total) - digamma(alpha)) / (total - alpha);
}
REAL dirichlet_gradient(REAL x, REAL alpha, REAL total) {
  const REAL beta = total - alpha, boundary = total * x * (REAL(1) - x);
  if (x <= REAL(0.5) && boundary < REAL(2.5)) return beta_gradient_series(x, alpha, beta);
  if (x >= REAL(0.5) && boundary < REAL(0.75)) return -beta_gradient_series_other(REAL(1) - x, beta, alpha);
  if (alpha > REAL(6) && beta > REAL(6)) return beta_gradient_saddle(x, alpha, beta);
  return beta_gradient_fit(x, alpha, total);
}

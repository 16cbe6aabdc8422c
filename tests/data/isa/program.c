/* One kernel that is called and one that is not. Built and run by tests/e2e/test_isa.py:
   aarch64-linux-gnu-gcc -O2 -march=armv8.6-a+i8mm -static; qemu-aarch64 -cpu max */
#include <arm_neon.h>
#include <stdio.h>
#include <stdlib.h>

#define PASSES 64

/* Four products of 2x8 by 8x2 bytes a pass. */
#define KERNEL(name)                                                                              \
	__attribute__((noinline)) void name(int32_t *out, const int8_t *a, const int8_t *b, int passes) \
	{                                                                                               \
		int32x4_t sums[4] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};         \
		for (; passes > 0; passes--, a += 32, b += 32) {                                              \
			int8x16_t a0 = vld1q_s8(a), a1 = vld1q_s8(a + 16);                                          \
			int8x16_t b0 = vld1q_s8(b), b1 = vld1q_s8(b + 16);                                          \
			sums[0] = vmmlaq_s32(sums[0], a0, b0);                                                      \
			sums[1] = vmmlaq_s32(sums[1], a0, b1);                                                      \
			sums[2] = vmmlaq_s32(sums[2], a1, b0);                                                      \
			sums[3] = vmmlaq_s32(sums[3], a1, b1);                                                      \
		}                                                                                             \
		for (int i = 0; i < 4; i++)                                                                   \
			vst1q_s32(out + 4 * i, sums[i]);                                                            \
	}

KERNEL(kai_run_matmul_clamp_f32_qai8dxp4x8_qsi4cxp4x8_8x4x32_neon_i8mm)
KERNEL(kai_run_matmul_clamp_f32_qai8dxp4x8_qsi4cxp8x8_4x8x32_neon_i8mm)

int main(int argc, char **argv)
{
	static int8_t a[32 * PASSES], b[32 * PASSES];
	int32_t out[16];
	for (int i = 0; i < 32 * PASSES; i++) {
		a[i] = (int8_t)(i * 7 - 5);
		b[i] = (int8_t)(i * 13 + 3);
	}
	(argc > 1 ? kai_run_matmul_clamp_f32_qai8dxp4x8_qsi4cxp8x8_4x8x32_neon_i8mm
	          : kai_run_matmul_clamp_f32_qai8dxp4x8_qsi4cxp4x8_8x4x32_neon_i8mm)(out, a, b, PASSES);
	for (int i = 0; i < 16; i++)
		printf("%d ", out[i]);
	(void)argv;
	return 0;
}

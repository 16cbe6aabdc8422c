/* Kernels of each kind that `neoserve isa` tells apart. See make.sh; `BROKEN` leaves the products
   out of the kernels whose names promise them, `HIDDEN` exports no name. */
	.arch armv8.6-a+i8mm+bf16+dotprod
	.text

#ifdef HIDDEN
#define EXPORT(name) .global name; .hidden name
#else
#define EXPORT(name) .global name
#endif
#define BEGIN(name) EXPORT(name); .type name, %function; .balign 16; name:; .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name

#ifdef BROKEN
#define SMMLA(d, n, m) mla v##d##.4s, v##n##.4s, v##m##.4s
#define SMMLA_8_0_1 SMMLA(8, 0, 1)
#define BFMMLA(d, n, m) fmla v##d##.4s, v##n##.4s, v##m##.4s
#else
#define SMMLA(d, n, m) smmla v##d##.4s, v##n##.16b, v##m##.16b
#define SMMLA_8_0_1 .word 0x4e81a408
#define BFMMLA(d, n, m) bfmmla v##d##.4s, v##n##.8h, v##m##.8h
#endif

/* The function that is called has no products; the one that it calls has. */
BEGIN(kai_run_matmul_clamp_bf16_qai8dxp4x8_qsi4cxp8x8_8x8_neon_i8mm)
	stp x29, x30, [sp, #-16]!
	bl kai_kernel_matmul_clamp_bf16_qai8dxp4x8_qsi4cxp8x8_8x8_neon_i8mm
	ldp x29, x30, [sp], #16
	ret
END(kai_run_matmul_clamp_bf16_qai8dxp4x8_qsi4cxp8x8_8x8_neon_i8mm)

/* An inner loop of 8 products in 14 instructions, in a loop over rows. */
BEGIN(kai_kernel_matmul_clamp_bf16_qai8dxp4x8_qsi4cxp8x8_8x8_neon_i8mm)
	ldr q20, 3f
1:	mov x4, x3
	SMMLA(16, 0, 1)		/* outside of the inner loop */
label_2:			/* a local label, as KleidiAI's sources have them */
	ld1 {v0.16b, v1.16b}, [x0], #32
	ld1 {v2.16b}, [x1], #16
	shl v3.16b, v2.16b, #4
	and v2.16b, v2.16b, v20.16b
	SMMLA(16, 0, 3)
	SMMLA(17, 1, 3)
	SMMLA(18, 0, 2)
	SMMLA(19, 1, 2)
	SMMLA(16, 1, 3)
	SMMLA(17, 0, 3)
	SMMLA(18, 1, 2)
	SMMLA(19, 0, 2)
	subs x4, x4, #1
	b.ne label_2
	st1 {v16.4s, v17.4s, v18.4s, v19.4s}, [x2], #64
	subs x5, x5, #1
	b.gt 1b
	ret
END(kai_kernel_matmul_clamp_bf16_qai8dxp4x8_qsi4cxp8x8_8x8_neon_i8mm)
	.balign 16
3:	.word 0x4e80a400, 0x4e80a400, 0x6e40ec00, 0xf0f0f0f0	/* literals, two like SMMLA, one BFMMLA */

/* A loop that ends in CBNZ. */
BEGIN(kai_run_matmul_clamp_f32_qai8dxp1x8_qsi4c32p4x8_1x4x32_neon_dotprod)
1:	ld1 {v0.16b}, [x0], #16
	ld1 {v1.16b}, [x1], #16
#ifdef BROKEN
	mla v16.4s, v0.4s, v1.4s
#else
	sdot v16.4s, v0.16b, v1.16b
	sdot v17.4s, v0.16b, v1.16b
	sdot v18.4s, v0.16b, v1.4b[2]
	sdot v19.2s, v0.8b, v1.8b
#endif
	sub x3, x3, #1
	cbnz x3, 1b
	ret
END(kai_run_matmul_clamp_f32_qai8dxp1x8_qsi4c32p4x8_1x4x32_neon_dotprod)

/* What KleidiAI asks of a kernel; it promises nothing. */
BEGIN(kai_get_m_step_matmul_clamp_f32_qai8dxp1x8_qsi4c32p4x8_1x4x32_neon_dotprod)
	mov x0, #1
	ret
END(kai_get_m_step_matmul_clamp_f32_qai8dxp1x8_qsi4c32p4x8_1x4x32_neon_dotprod)

/* Arm Compute Library: arm_gemm::a64_interleaved_s8s32_mmla_8x12(signed char const*, ...). */
BEGIN(_ZN8arm_gemm31a64_interleaved_s8s32_mmla_8x12EPKaS1_Piiii)
1:	ldr q0, [x0], #16
	ldr q1, [x1], #16
	SMMLA_8_0_1		/* as data, as the library writes some: code falls into it */
	SMMLA(9, 0, 1)
	SMMLA(10, 0, 1)
	SMMLA(11, 0, 1)
	tbnz x3, #0, 2f
	subs x3, x3, #1
2:	b.ne 1b
	ret
END(_ZN8arm_gemm31a64_interleaved_s8s32_mmla_8x12EPKaS1_Piiii)

/* A loop that ends in TBZ. */
BEGIN(_ZN8arm_gemm34a64_interleaved_bf16fp32_mmla_8x12EPKN8arm_gemm8bfloat16ES3_Pfiii)
1:	ldr q0, [x0], #16
	ldr q1, [x1], #16
	BFMMLA(8, 0, 1)
	BFMMLA(9, 0, 1)
	BFMMLA(10, 0, 1)
	BFMMLA(11, 0, 1)
	sub x3, x3, #1
	tbz x3, #63, 1b
	ret
END(_ZN8arm_gemm34a64_interleaved_bf16fp32_mmla_8x12EPKN8arm_gemm8bfloat16ES3_Pfiii)

/* Products of no known purpose, without unwind data; two loops far from each other. */
	EXPORT(anonymous_loops)
	.balign 16
anonymous_loops:
1:	udot v0.4s, v1.16b, v2.16b
	udot v3.4s, v1.16b, v2.16b
	udot v4.4s, v1.16b, v2.16b
	udot v5.4s, v1.16b, v2.16b
	subs x0, x0, #1
	b.ne 1b
	.rept 600
	add x1, x1, #1
	.endr
2:	bfdot v0.4s, v1.8h, v2.8h
	bfdot v3.4s, v1.8h, v2.8h
	bfdot v4.4s, v1.8h, v2.8h
	bfdot v5.4s, v1.8h, v2.8h
	subs x0, x0, #1
	b.ne 2b
	ret

/* VNNI, AMX, AVX512-BF16 and fused multiply-adds. See make.sh. */
	.text
#define BEGIN(name) .global name; .type name, @function; .balign 16; name:; .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name

BEGIN(vnni)
1:	vmovdqu8 (%rdi), %zmm0
	vpdpbusd (%rsi), %zmm0, %zmm1
	vpdpbusd %zmm2, %zmm0, %zmm31
	vpdpbusds %ymm2, %ymm0, %ymm3
	vpdpwssd %zmm2, %zmm0, %zmm4{%k1}
	{vex} vpdpbusd %ymm2, %ymm0, %ymm3
	dec %rdx
	jnz 1b
	ret
END(vnni)

BEGIN(amx)
	tileloadd (%rdi,%rax), %tmm0
	tdpbssd %tmm2, %tmm1, %tmm0
	tdpbusd %tmm2, %tmm1, %tmm0
	tdpbf16ps %tmm2, %tmm1, %tmm0
	ret
END(amx)

BEGIN(bf16)
	vdpbf16ps %zmm2, %zmm1, %zmm0
	vdpbf16ps (%rdi), %ymm1, %ymm0
	vcvtneps2bf16 %zmm1, %ymm0
	vcvtne2ps2bf16 %zmm2, %zmm1, %zmm0
	ret
END(bf16)

BEGIN(fma)
	vfmadd231ps %ymm2, %ymm1, %ymm0
	vfmadd213pd %ymm2, %ymm1, %ymm0
	vfnmadd231ps %zmm2, %zmm1, %zmm0
	vfmadd231ps %xmm2, %xmm1, %xmm0	/* narrower: not counted */
	vfmadd231ss %xmm2, %xmm1, %xmm0
	ret
END(fma)

/* The bytes of VPDPBUSD within a constant: no instruction. */
BEGIN(constant)
	movabs $0x50f0c2e2c4909090, %rax
	mov $0x50f165e2, %ecx
	ret
END(constant)

BEGIN(plain)
	lea (%rdi,%rsi), %rax
	ret
END(plain)

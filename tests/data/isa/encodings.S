/* Every form that is looked for, with several operands, and its neighbours. See make.sh. */
	.arch armv9-a+i8mm+bf16+sme+sme-i64+sme-f64+f32mm+f64mm+fp16fml+dotprod
	.text
	smmla v0.4s, v0.16b, v0.16b
	smmla v31.4s, v1.16b, v2.16b
	smmla v5.4s, v30.16b, v17.16b
	smmla v12.4s, v9.16b, v31.16b
	smmla z0.s, z0.b, z0.b
	smmla z31.s, z1.b, z2.b
	smmla z5.s, z30.b, z17.b
	smmla z12.s, z9.b, z31.b
	ummla v0.4s, v0.16b, v0.16b
	ummla v31.4s, v1.16b, v2.16b
	ummla v5.4s, v30.16b, v17.16b
	ummla v12.4s, v9.16b, v31.16b
	ummla z0.s, z0.b, z0.b
	ummla z31.s, z1.b, z2.b
	ummla z5.s, z30.b, z17.b
	ummla z12.s, z9.b, z31.b
	usmmla v0.4s, v0.16b, v0.16b
	usmmla v31.4s, v1.16b, v2.16b
	usmmla v5.4s, v30.16b, v17.16b
	usmmla v12.4s, v9.16b, v31.16b
	usmmla z0.s, z0.b, z0.b
	usmmla z31.s, z1.b, z2.b
	usmmla z5.s, z30.b, z17.b
	usmmla z12.s, z9.b, z31.b
	bfmmla v0.4s, v0.8h, v0.8h
	bfmmla v31.4s, v1.8h, v2.8h
	bfmmla v5.4s, v30.8h, v17.8h
	bfmmla v12.4s, v9.8h, v31.8h
	bfmmla z0.s, z0.h, z0.h
	bfmmla z31.s, z1.h, z2.h
	bfmmla z5.s, z30.h, z17.h
	bfmmla z12.s, z9.h, z31.h
	fmmla z0.s, z0.s, z0.s
	fmmla z0.d, z0.d, z0.d
	fmmla z31.s, z1.s, z2.s
	fmmla z31.d, z1.d, z2.d
	fmmla z5.s, z30.s, z17.s
	fmmla z5.d, z30.d, z17.d
	fmmla z12.s, z9.s, z31.s
	fmmla z12.d, z9.d, z31.d
	sdot v0.4s, v0.16b, v0.16b
	sdot v0.2s, v0.8b, v0.8b
	sdot z0.s, z0.b, z0.b
	sdot z0.d, z0.h, z0.h
	sdot v31.4s, v1.16b, v2.16b
	sdot v31.2s, v1.8b, v2.8b
	sdot z31.s, z1.b, z2.b
	sdot z31.d, z1.h, z2.h
	sdot v5.4s, v30.16b, v17.16b
	sdot v5.2s, v30.8b, v17.8b
	sdot z5.s, z30.b, z17.b
	sdot z5.d, z30.h, z17.h
	sdot v12.4s, v9.16b, v31.16b
	sdot v12.2s, v9.8b, v31.8b
	sdot z12.s, z9.b, z31.b
	sdot z12.d, z9.h, z31.h
	udot v0.4s, v0.16b, v0.16b
	udot v0.2s, v0.8b, v0.8b
	udot z0.s, z0.b, z0.b
	udot z0.d, z0.h, z0.h
	udot v31.4s, v1.16b, v2.16b
	udot v31.2s, v1.8b, v2.8b
	udot z31.s, z1.b, z2.b
	udot z31.d, z1.h, z2.h
	udot v5.4s, v30.16b, v17.16b
	udot v5.2s, v30.8b, v17.8b
	udot z5.s, z30.b, z17.b
	udot z5.d, z30.h, z17.h
	udot v12.4s, v9.16b, v31.16b
	udot v12.2s, v9.8b, v31.8b
	udot z12.s, z9.b, z31.b
	udot z12.d, z9.h, z31.h
	usdot v0.4s, v0.16b, v0.16b
	usdot v0.2s, v0.8b, v0.8b
	usdot z0.s, z0.b, z0.b
	usdot v31.4s, v1.16b, v2.16b
	usdot v31.2s, v1.8b, v2.8b
	usdot z31.s, z1.b, z2.b
	usdot v5.4s, v30.16b, v17.16b
	usdot v5.2s, v30.8b, v17.8b
	usdot z5.s, z30.b, z17.b
	usdot v12.4s, v9.16b, v31.16b
	usdot v12.2s, v9.8b, v31.8b
	usdot z12.s, z9.b, z31.b
	sdot v0.4s, v0.16b, v0.4b[0]
	sdot v0.2s, v0.8b, v0.4b[3]
	sdot z0.s, z0.b, z0.b[0]
	sdot z0.d, z0.h, z0.h[0]
	sdot v31.4s, v1.16b, v2.4b[1]
	sdot v31.2s, v1.8b, v2.4b[2]
	sdot z31.s, z1.b, z2.b[1]
	sdot z31.d, z1.h, z2.h[1]
	sdot v5.4s, v30.16b, v17.4b[2]
	sdot v5.2s, v30.8b, v17.4b[1]
	sdot z5.s, z30.b, z1.b[2]
	sdot z5.d, z30.h, z1.h[0]
	sdot v12.4s, v9.16b, v31.4b[3]
	sdot v12.2s, v9.8b, v31.4b[0]
	sdot z12.s, z9.b, z7.b[3]
	sdot z12.d, z9.h, z15.h[1]
	udot v0.4s, v0.16b, v0.4b[0]
	udot v0.2s, v0.8b, v0.4b[3]
	udot z0.s, z0.b, z0.b[0]
	udot z0.d, z0.h, z0.h[0]
	udot v31.4s, v1.16b, v2.4b[1]
	udot v31.2s, v1.8b, v2.4b[2]
	udot z31.s, z1.b, z2.b[1]
	udot z31.d, z1.h, z2.h[1]
	udot v5.4s, v30.16b, v17.4b[2]
	udot v5.2s, v30.8b, v17.4b[1]
	udot z5.s, z30.b, z1.b[2]
	udot z5.d, z30.h, z1.h[0]
	udot v12.4s, v9.16b, v31.4b[3]
	udot v12.2s, v9.8b, v31.4b[0]
	udot z12.s, z9.b, z7.b[3]
	udot z12.d, z9.h, z15.h[1]
	usdot v0.4s, v0.16b, v0.4b[0]
	usdot v0.2s, v0.8b, v0.4b[3]
	usdot z0.s, z0.b, z0.b[0]
	usdot v31.4s, v1.16b, v2.4b[1]
	usdot v31.2s, v1.8b, v2.4b[2]
	usdot z31.s, z1.b, z2.b[1]
	usdot v5.4s, v30.16b, v17.4b[2]
	usdot v5.2s, v30.8b, v17.4b[1]
	usdot z5.s, z30.b, z1.b[2]
	usdot v12.4s, v9.16b, v31.4b[3]
	usdot v12.2s, v9.8b, v31.4b[0]
	usdot z12.s, z9.b, z7.b[3]
	sudot v0.4s, v0.16b, v0.4b[0]
	sudot v0.2s, v0.8b, v0.4b[3]
	sudot z0.s, z0.b, z0.b[0]
	sudot v31.4s, v1.16b, v2.4b[1]
	sudot v31.2s, v1.8b, v2.4b[2]
	sudot z31.s, z1.b, z2.b[1]
	sudot v5.4s, v30.16b, v17.4b[2]
	sudot v5.2s, v30.8b, v17.4b[1]
	sudot z5.s, z30.b, z1.b[2]
	sudot v12.4s, v9.16b, v31.4b[3]
	sudot v12.2s, v9.8b, v31.4b[0]
	sudot z12.s, z9.b, z7.b[3]
	bfdot v0.4s, v0.8h, v0.8h
	bfdot v0.2s, v0.4h, v0.4h
	bfdot v0.4s, v0.8h, v0.2h[0]
	bfdot v0.2s, v0.4h, v0.2h[3]
	bfdot z0.s, z0.h, z0.h
	bfdot z0.s, z0.h, z0.h[0]
	bfmlalb v0.4s, v0.8h, v0.8h
	bfmlalb v0.4s, v0.8h, v0.h[0]
	bfmlalb z0.s, z0.h, z0.h
	bfmlalb z0.s, z0.h, z0.h[1]
	bfmlalt v0.4s, v0.8h, v0.8h
	bfmlalt v0.4s, v0.8h, v0.h[0]
	bfmlalt z0.s, z0.h, z0.h
	bfmlalt z0.s, z0.h, z0.h[1]
	bfcvtn v0.4h, v0.4s
	bfcvtn2 v0.8h, v0.4s
	bfcvt h0, s0
	smopa za0.s, p0/m, p7/m, z0.b, z0.b
	umopa za0.s, p0/m, p7/m, z0.b, z0.b
	usmopa za0.s, p0/m, p7/m, z0.b, z0.b
	sumopa za0.s, p0/m, p7/m, z0.b, z0.b
	bfmopa za0.s, p0/m, p7/m, z0.h, z0.h
	fmopa za0.s, p0/m, p7/m, z0.s, z0.s
	fmopa za0.s, p0/m, p7/m, z0.h, z0.h
	fmopa za1.d, p0/m, p7/m, z0.d, z0.d
	bfdot v31.4s, v1.8h, v2.8h
	bfdot v31.2s, v1.4h, v2.4h
	bfdot v31.4s, v1.8h, v2.2h[1]
	bfdot v31.2s, v1.4h, v2.2h[2]
	bfdot z31.s, z1.h, z2.h
	bfdot z31.s, z1.h, z2.h[1]
	bfmlalb v31.4s, v1.8h, v2.8h
	bfmlalb v31.4s, v1.8h, v2.h[2]
	bfmlalb z31.s, z1.h, z2.h
	bfmlalb z31.s, z1.h, z2.h[3]
	bfmlalt v31.4s, v1.8h, v2.8h
	bfmlalt v31.4s, v1.8h, v2.h[2]
	bfmlalt z31.s, z1.h, z2.h
	bfmlalt z31.s, z1.h, z2.h[3]
	bfcvtn v31.4h, v1.4s
	bfcvtn2 v31.8h, v1.4s
	bfcvt h31, s1
	smopa za1.s, p2/m, p6/m, z1.b, z2.b
	umopa za1.s, p2/m, p6/m, z1.b, z2.b
	usmopa za1.s, p2/m, p6/m, z1.b, z2.b
	sumopa za1.s, p2/m, p6/m, z1.b, z2.b
	bfmopa za1.s, p2/m, p6/m, z1.h, z2.h
	fmopa za1.s, p2/m, p6/m, z1.s, z2.s
	fmopa za1.s, p2/m, p6/m, z1.h, z2.h
	fmopa za3.d, p2/m, p6/m, z1.d, z2.d
	bfdot v5.4s, v30.8h, v17.8h
	bfdot v5.2s, v30.4h, v17.4h
	bfdot v5.4s, v30.8h, v17.2h[2]
	bfdot v5.2s, v30.4h, v17.2h[1]
	bfdot z5.s, z30.h, z17.h
	bfdot z5.s, z30.h, z1.h[2]
	bfmlalb v5.4s, v30.8h, v17.8h
	bfmlalb v5.4s, v30.8h, v1.h[4]
	bfmlalb z5.s, z30.h, z17.h
	bfmlalb z5.s, z30.h, z1.h[5]
	bfmlalt v5.4s, v30.8h, v17.8h
	bfmlalt v5.4s, v30.8h, v1.h[4]
	bfmlalt z5.s, z30.h, z17.h
	bfmlalt z5.s, z30.h, z1.h[5]
	bfcvtn v5.4h, v30.4s
	bfcvtn2 v5.8h, v30.4s
	bfcvt h5, s30
	smopa za2.s, p4/m, p5/m, z30.b, z17.b
	umopa za2.s, p4/m, p5/m, z30.b, z17.b
	usmopa za2.s, p4/m, p5/m, z30.b, z17.b
	sumopa za2.s, p4/m, p5/m, z30.b, z17.b
	bfmopa za2.s, p4/m, p5/m, z30.h, z17.h
	fmopa za2.s, p4/m, p5/m, z30.s, z17.s
	fmopa za2.s, p4/m, p5/m, z30.h, z17.h
	fmopa za5.d, p4/m, p5/m, z30.d, z17.d
	bfdot v12.4s, v9.8h, v31.8h
	bfdot v12.2s, v9.4h, v31.4h
	bfdot v12.4s, v9.8h, v31.2h[3]
	bfdot v12.2s, v9.4h, v31.2h[0]
	bfdot z12.s, z9.h, z31.h
	bfdot z12.s, z9.h, z7.h[3]
	bfmlalb v12.4s, v9.8h, v31.8h
	bfmlalb v12.4s, v9.8h, v15.h[6]
	bfmlalb z12.s, z9.h, z31.h
	bfmlalb z12.s, z9.h, z7.h[7]
	bfmlalt v12.4s, v9.8h, v31.8h
	bfmlalt v12.4s, v9.8h, v15.h[6]
	bfmlalt z12.s, z9.h, z31.h
	bfmlalt z12.s, z9.h, z7.h[7]
	bfcvtn v12.4h, v9.4s
	bfcvtn2 v12.8h, v9.4s
	bfcvt h12, s9
	smopa za3.s, p6/m, p4/m, z9.b, z31.b
	umopa za3.s, p6/m, p4/m, z9.b, z31.b
	usmopa za3.s, p6/m, p4/m, z9.b, z31.b
	sumopa za3.s, p6/m, p4/m, z9.b, z31.b
	bfmopa za3.s, p6/m, p4/m, z9.h, z31.h
	fmopa za3.s, p6/m, p4/m, z9.s, z31.s
	fmopa za3.s, p6/m, p4/m, z9.h, z31.h
	fmopa za7.d, p6/m, p4/m, z9.d, z31.d
	smstart
	smstart sm
	smstart za
	smstop
	smstop sm
	smstop za
	fmla v0.4s, v1.4s, v2.4s
	fmla v0.4s, v1.4s, v2.s[1]
	mla v0.4s, v1.4s, v2.4s
	smlal v0.4s, v1.4h, v2.4h
	smlal2 v0.8h, v1.16b, v2.16b
	sqrdmlah v0.4s, v1.4s, v2.4s
	sqrdmlsh v0.8h, v1.8h, v2.8h
	fcmla v0.4s, v1.4s, v2.4s, #90
	fcadd v0.4s, v1.4s, v2.4s, #270
	fmlal v0.4s, v1.4h, v2.4h
	fmlal2 v0.4s, v1.4h, v2.4h
	addp v0.16b, v1.16b, v2.16b
	cmeq v0.16b, v1.16b, v2.16b
	zip1 v0.4s, v1.4s, v2.4s
	ext v0.16b, v1.16b, v2.16b, #4
	tbl v0.16b, {v1.16b}, v2.16b
	ldr q0, [x1]
	ld1 {v0.16b, v1.16b}, [x0], #32
	fmla z0.s, p0/m, z1.s, z2.s
	fmla z0.s, z1.s, z2.s[1]
	mla z0.s, p0/m, z1.s, z2.s
	smlalb z0.s, z1.h, z2.h
	fmlalb z0.s, z1.h, z2.h
	cdot z0.s, z1.b, z2.b, #90
	sqdmlalb z0.s, z1.h, z2.h
	bfcvt z0.h, p0/m, z1.s
	bfcvtnt z0.h, p0/m, z1.s
	smops za0.s, p0/m, p1/m, z0.b, z1.b
	bfmops za0.s, p0/m, p1/m, z0.h, z1.h
	fmops za0.s, p0/m, p1/m, z0.s, z1.s
	fmops za0.d, p0/m, p1/m, z0.d, z1.d
	smopa za0.d, p0/m, p1/m, z0.h, z1.h
	addha za0.s, p0/m, p1/m, z0.s
	zero {za}
	fcvt h0, s1
	fcvtn v0.4h, v1.4s
	xtn v0.4h, v1.4s
	nop
	bti c
	paciasp
	dmb ish
	mrs x0, tpidr_el0
	msr daifset, #2
	ret
	b .

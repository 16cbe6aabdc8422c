#!/bin/sh
# Makes the fixtures of this folder from their sources, with Debian 12's binutils 2.40 and cpp 12.2:
#   apt-get install binutils-aarch64-linux-gnu gcc
set -eu
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT

# encodings.txt: what objdump reads in what as has written
aarch64-linux-gnu-as -o "$out/encodings.o" encodings.S
aarch64-linux-gnu-objdump -d -M no-aliases "$out/encodings.o" |
	sed -n 's/^ *[0-9a-f]*:\t\([0-9a-f]\{8\}\) \t\(.*\)$/\1\t\2/p' > encodings.txt

# kernels*.so: small libraries with names, without .symtab, without any names, and with kernels that
# lack what their names promise
arm() { # OUTPUT, then flags of the preprocessor
	target=$1
	shift
	cpp -x assembler-with-cpp -P "$@" kernels.S "$out/k.s"
	aarch64-linux-gnu-as -o "$out/k.o" "$out/k.s"
	aarch64-linux-gnu-ld -shared --eh-frame-hdr --build-id=none -z max-page-size=4096 \
		-z noseparate-code -o "$target" "$out/k.o"
}
arm kernels.so
arm kernels_broken.so -DBROKEN
cp kernels.so kernels_stripped.so
arm kernels_bare.so -DHIDDEN
aarch64-linux-gnu-strip kernels_stripped.so kernels_bare.so

# x86.so
gcc -c -o "$out/x.o" x86.S
ld -shared --eh-frame-hdr --build-id=none -z max-page-size=4096 -z noseparate-code -o x86.so "$out/x.o"
